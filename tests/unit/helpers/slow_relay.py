"""A relay to an sshd on this machine that passes bytes on a moment later, as a long path does.

python -m tests.unit.helpers.slow_relay SECONDS PORT    prints its own port
"""

import asyncio
import sys


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, wait_s: float):
    """Write what is read, each part as much later as the first one."""
    loop = asyncio.get_running_loop()
    late: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

    async def write() -> None:
        while True:
            due, data = await late.get()
            await asyncio.sleep(due - loop.time())
            if not data:
                writer.close()
                return
            writer.write(data)

    writing = asyncio.create_task(write())
    try:
        while data := await reader.read(65536):
            late.put_nowait((loop.time() + wait_s, data))
    except OSError:
        pass
    late.put_nowait((loop.time() + wait_s, b""))
    await writing


async def serve(wait_s: float, port: int) -> None:
    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(
            _pass_on(reader, back, wait_s), _pass_on(there, writer, wait_s), return_exceptions=True
        )

    server = await asyncio.start_server(accept, "127.0.0.1", 0, backlog=1024)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(float(sys.argv[1]), int(sys.argv[2])))
