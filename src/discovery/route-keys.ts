// The endpoints that the documents speak of by name: what is said of them appears where they are mounted.

export const START_CLAIM_ROUTE = "POST /agent/identity/claim";
export const CLAIM_TOKEN_ROUTE = "POST /oauth2/token";
export const EMBEDDINGS_ROUTE = "POST /v1/embeddings";
export const REGISTER_ROUTE = "POST /v1/accounts";
