// The card of the MCP server (server.json of the MCP registry, with the revisions that it speaks).

export const MCP_PATH = "/mcp";
export const MCP_RESOURCE_METADATA_PATH = "/.well-known/oauth-protected-resource/mcp";
