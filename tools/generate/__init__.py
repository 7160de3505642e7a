"""Files that repeat the roles' argument specs, written from them: `make generate`.

A setting is declared once, in roles/ROLE/meta/argument_specs.yml. A default that is made from other
variables has no literal of its type, which documentation tools refuse as a `default`; its template
is in roles/ROLE/meta/derived.yml. From these two come the role's defaults/main.yml and parts of its
README.md, and for its module the argument spec. The module's documented options are read from the
specs when they are shown (plugins/doc_fragments/options.py). The wordings of NCCL in
docs/nccl-forms.md come from tools/nccl_wordings.yml.
"""
