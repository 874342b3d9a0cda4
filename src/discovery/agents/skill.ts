// The agent skill of this gateway (agentskills.io): how to register, call, pay and hand over. Its index has the digest of the
// exact bytes that are served.

import { createHash } from "node:crypto";
import {
  cheapModelsText,
  creditsText,
  type DiscoverySettings,
  PRODUCT_NAME,
} from "../discovery-settings.ts";
import { type DocContext, joinParagraphs } from "../doc-context.ts";
import {
  consentRules,
  exportKeyLine,
  KEY_IS_SHOWN_ONCE,
  KEY_STAYS_IN_FILE,
  registerCommands,
} from "../key-commands.ts";
import {
  CLAIM_TOKEN_ROUTE,
  MCP_TOKEN_ROUTE,
  REGISTER_ROUTE,
  START_CLAIM_ROUTE,
} from "../route-keys.ts";
import { MCP_PATH } from "./mcp-card.ts";

const SKILL_NAME = "postern";
export const SKILL_PATH = `/.well-known/agent-skills/${SKILL_NAME}/SKILL.md`;
export const SKILL_DESCRIPTION =
  "Create a funded account for language models without a human, call any model with the OpenAI, Anthropic or Google API or over MCP, read usage, pay, and let a human claim the account. Use it when you need an API key or a model and have none.";

export function skillMd(context: DocContext): string {
  const { settings, curl, isMounted } = context;
  const { baseUrl, startingCredits } = settings;
  return `${joinParagraphs([
    `---\nname: ${SKILL_NAME}\ndescription: ${SKILL_DESCRIPTION}\n---`,
    `# ${PRODUCT_NAME}`,
    `The gateway is at ${baseUrl}. [auth.md](${baseUrl}/auth.md) explains every step and error on one page.`,
    ...step(
      isMounted(REGISTER_ROUTE),
      "Register",
      `One request creates an account with ${creditsText(startingCredits)}. ${KEY_STAYS_IN_FILE}`,
      registerCommands(context, [exportKeyLine(context)]),
      `${KEY_IS_SHOWN_ONCE} ${consentRules(context)}`,
    ),
    ...step(
      isMounted("POST /v1/chat/completions"),
      "Call a model",
      `Use an id from ${baseUrl}/v1/models?q=…&limit=20. ${cheapModelsText(settings) ?? ""} OpenAI SDKs use the base URL ${baseUrl}/v1, Anthropic's and Google's ${baseUrl}.`,
      curl("POST /v1/chat/completions"),
    ),
    ...step(
      isMounted("GET /v1/usage"),
      "Read usage",
      "Each call has a record with its cost.",
      curl("GET /v1/usage"),
    ),
    ...step(
      isMounted("POST /v1/billing/invoice"),
      "Pay",
      payText(settings),
      curl("POST /v1/billing/invoice"),
    ),
    ...step(
      isMounted(START_CLAIM_ROUTE),
      "Hand the account over",
      "Ask the human for their email address. Give them `verification_uri_complete` and `user_code`, and poll until the claim is decided. The key keeps working.",
      curl(START_CLAIM_ROUTE),
      curl(CLAIM_TOKEN_ROUTE),
    ),
    ...step(
      isMounted(`POST ${MCP_PATH}`),
      "Over MCP",
      `The MCP server at ${baseUrl}${MCP_PATH} has the same steps as tools, such as \`create_account\` and \`send_message\`.${signInText(context)}`,
    ),
  ])}\n`;
}

function signInText({ isMounted, settings }: DocContext): string {
  return isMounted(MCP_TOKEN_ROUTE)
    ? ` A human who has an account signs in from the MCP client instead, at ${settings.baseUrl}${MCP_PATH}?sign_in=required.`
    : "";
}

function step(
  isMounted: boolean,
  title: string,
  ...paragraphs: readonly string[]
): readonly string[] {
  return isMounted ? [`## ${title}`, ...paragraphs] : [];
}

export function skillsIndex(context: DocContext): unknown {
  const digest = createHash("sha256").update(skillMd(context)).digest("hex");
  return {
    $schema: "https://schemas.agentskills.io/discovery/0.2.0/schema.json",
    skills: [
      {
        name: SKILL_NAME,
        type: "skill-md",
        description: SKILL_DESCRIPTION,
        url: SKILL_PATH,
        digest: `sha256:${digest}`,
      },
    ],
  };
}

function payText({ paymentMethods = [], hasPaymentPage = true }: DiscoverySettings): string {
  const page = hasPaymentPage
    ? "Ask your human: create an invoice and give them its `pay_url`."
    : "";
  const own =
    paymentMethods.length > 0
      ? "With a wallet you can pay a `402` or an invoice yourself, if your human lets you: see `payment_methods` of the invoice."
      : "";
  return page + own === "" ? "This gateway sells no credits." : `${page} ${own}`.trim();
}
