// Routes that the documents mention by name.

export const START_CLAIM_ROUTE = "POST /agent/identity/claim";
export const CLAIM_TOKEN_ROUTE = "POST /oauth2/token";
export const DEVICE_AUTHORIZATION_ROUTE = "POST /oauth/device_authorization";
export const DEVICE_TOKEN_ROUTE = "POST /oauth/token";
export const MCP_REGISTER_ROUTE = "POST /mcp/register";
export const MCP_TOKEN_ROUTE = "POST /mcp/token";
export const EMBEDDINGS_ROUTE = "POST /v1/embeddings";
export const REGISTER_ROUTE = "POST /v1/accounts";
