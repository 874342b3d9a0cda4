// Descriptions of the tags. A tag without one gets a generic sentence.

const TAG_DESCRIPTIONS: Readonly<Record<string, string>> = {
  accounts: "Create an account without a human, and get its balance and budgets.",
  models: "Call a model with the OpenAI or Anthropic API. List models and their prices.",
  inference: "Call a model with the OpenAI or Anthropic API.",
  "model calls": "Call a model with the OpenAI or Anthropic API.",
  keys: "Create, list, change and revoke API keys.",
  usage: "What each call used and what it cost.",
  billing: "Buy prepaid credits.",
  "provider keys": "Use your own API keys from model providers. These calls cost no credits.",
  claims: "Let a human claim the account. Its keys keep working.",
  members: "The members of a workspace and their roles.",
  audit: "The changes of the account: time, actor, action and target.",
  webhooks: "Receive events as signed HTTP requests (Standard Webhooks).",
  agents: "The Model Context Protocol (MCP) server, for agents.",
  discovery: "Machine-readable descriptions of this service.",
  operations: "Health checks and metrics.",
};

export function tagDescription(tag: string): string {
  return TAG_DESCRIPTIONS[tag.toLowerCase().replaceAll("-", " ")] ?? `${tag} endpoints.`;
}
