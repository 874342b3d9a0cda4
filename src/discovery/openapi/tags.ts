// The chapters of the API. A tag that is not named here still appears, under a plain sentence.

const TAG_DESCRIPTIONS: Readonly<Record<string, string>> = {
  accounts: "Open an account without a human, and read it with its balance.",
  models: "Which models there are, what they can do and what they cost.",
  inference: "Call a model through the API that you already speak.",
  "model calls": "Call a model through the API that you already speak.",
  keys: "Mint, list, rename, limit and revoke API keys.",
  usage: "What was used and what it cost: one record for each call.",
  billing: "Buy prepaid credits.",
  "provider keys": "Bring your own key of a provider; its calls cost no credits.",
  claims: "Hand the account over to a human. The key keeps working.",
  members: "The people of a workspace and what they may do.",
  audit: "Who changed what in the account.",
  webhooks: "Be told of what happens, in the Standard Webhooks form.",
  discovery: "The documents that describe this service to programs and people.",
  operations: "Whether the service is alive and ready, and its measurements.",
};

export function tagDescription(tag: string): string {
  return (
    TAG_DESCRIPTIONS[tag.toLowerCase().replaceAll("-", " ")] ??
    `The endpoints for ${tag.toLowerCase()}.`
  );
}
