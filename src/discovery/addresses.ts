// The endpoints that the documents speak of by name: what is said of them appears where they are mounted.

export const CLAIM_START = "POST /agent/identity/claim";
export const CLAIM_TOKEN = "POST /oauth2/token";
export const EMBED = "POST /v1/embeddings";
export const REGISTER = "POST /v1/accounts";
