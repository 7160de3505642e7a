"""Writes the generated files that are not current, and names them."""

from __future__ import annotations

from tools.generate.outputs import ROOT, outputs


def main() -> None:
    """Write each file that is not current."""
    for path, text in outputs().items():
        if not path.is_file() or path.read_text() != text:
            path.write_text(text)
            print(path.relative_to(ROOT))  # noqa: T201 - a tool for developers


if __name__ == "__main__":
    main()
