"""A job with the official Python SDK: list tools, register, call a model with progress, read usage and a resource.

Prints one JSON object. Arguments: the URL of the MCP server and the mode, `auto` or `legacy`.
"""

import asyncio
import json
import sys

from mcp import Client


async def main(url: str, mode: str) -> None:
    progress: list[float] = []

    async def on_progress(value: float, _total: float | None, _message: str | None) -> None:
        progress.append(value)

    async with Client(url, mode=mode) as client:
        tools = await client.list_tools()
        created = await client.call_tool("create_account", {})
        key = created.structured_content["api_key"]
        call = {"model": "sim/echo", "prompt": "hello " * 200, "max_tokens": 400, "api_key": key}
        sent = await client.call_tool("send_message", call, progress_callback=on_progress)
        usage = await client.call_tool("get_usage", {"api_key": key})
        unknown = await client.call_tool("get_balance", {"api_key": "pst-rt-wrong"})
        guide_uri = url.removesuffix("/mcp") + "/auth.md"
        guide = await client.read_resource(guide_uri)
        print(
            json.dumps(
                {
                    "revision": client.protocol_version,
                    "tools": [tool.name for tool in tools.tools],
                    "text": sent.structured_content["text"],
                    "progress": progress,
                    "calls": len(usage.structured_content["data"]),
                    "wrong_key": [unknown.is_error, unknown.content[0].text],
                    "guide": guide.contents[0].text,
                }
            )
        )


asyncio.run(main(sys.argv[1], sys.argv[2]))
