// /auth.md: the page from which an agent learns to use the gateway. A section appears only if its routes are mounted.

import { MCP_PATH } from "../agents/mcp-card.ts";
import {
  claimGrantType,
  creditsText,
  type DiscoverySettings,
  PRODUCT_NAME,
} from "../discovery-settings.ts";
import { type DocContext, joinParagraphs, markdownTable } from "../doc-context.ts";
import { TOKEN_ERRORS } from "../error-docs.ts";
import { CLAIM_TOKEN_ROUTE, MCP_TOKEN_ROUTE, START_CLAIM_ROUTE } from "../route-keys.ts";
import { errorsSection, limitsSection, linksSection, retrySection } from "./reference-sections.ts";
import {
  type Section,
  findKeySection,
  registerSection,
  storeKeySection,
} from "./registration-sections.ts";
import {
  balanceSection,
  buyCreditsSection,
  callModelSection,
  manageKeysSection,
} from "./usage-sections.ts";

type SectionWriter = (context: DocContext) => Section | undefined;

const SECTIONS: readonly SectionWriter[] = [
  findKeySection,
  registerSection,
  storeKeySection,
  callModelSection,
  balanceSection,
  buyCreditsSection,
  manageKeysSection,
  claimSection,
  errorsSection,
  retrySection,
  limitsSection,
  linksSection,
];

export function authMd(context: DocContext): string {
  const sections = SECTIONS.map((write) => write(context)).filter(
    (section) => section !== undefined,
  );
  return `${joinParagraphs([introduction(context), ...sections.map(({ title, text }) => `## ${title}\n\n${text}`)])}\n`;
}

/** What is possible on this gateway. */
function whoPays({ paymentMethods = [], hasPaymentPage = true }: DiscoverySettings): string {
  if (paymentMethods.length > 0) return "None of these steps needs a browser or a human.";
  return hasPaymentPage
    ? "Only paying needs a human: you ask yours. The other steps need neither a browser nor a human."
    : "None of these steps needs a browser or a human. This gateway sells no credits.";
}

function mcpRow({ isMounted, settings }: DocContext): readonly (readonly string[])[] {
  const url = `${settings.baseUrl}${MCP_PATH}`;
  const signIn = isMounted(MCP_TOKEN_ROUTE) ? "; a human signs in with `?sign_in=required`" : "";
  return isMounted(`POST ${MCP_PATH}`) ? [["MCP server", `\`${url}\`${signIn}`]] : [];
}

function introduction(context: DocContext): string {
  const { settings } = context;
  const claimable = context.isMounted(START_CLAIM_ROUTE)
    ? " A human can claim the account later; your key keeps working."
    : "";
  return joinParagraphs([
    `# auth.md: how agents sign up for ${PRODUCT_NAME}`,
    `This page is for AI agents. It explains how to create an account at ${settings.baseUrl}, store its API key, call a language model and pay for it. ${whoPays(settings)}${claimable}`,
    markdownTable(
      ["What", "Value"],
      [
        ["Base URL", `\`${settings.baseUrl}\``],
        ["Base URL for OpenAI SDKs", `\`${settings.baseUrl}/v1\``],
        ["Base URL for Anthropic's and Google's SDKs", `\`${settings.baseUrl}\``],
        ["Authentication", "`authorization: Bearer <API_KEY>`, or `x-api-key: <API_KEY>`"],
        ["Key format", `\`${settings.keyPrefix}-rt-\` followed by 49 letters and digits`],
        ["Starting credits", creditsText(settings.startingCredits)],
        ...mcpRow(context),
      ],
    ),
    "Request and response bodies are JSON unless stated otherwise. The commands need a POSIX shell and `curl`.",
  ]);
}

// auth.md: how a human claims the account. Written only if both endpoints are mounted.
function claimSection(context: DocContext): Section | undefined {
  if (!context.isMounted(START_CLAIM_ROUTE) || !context.isMounted(CLAIM_TOKEN_ROUTE))
    return undefined;
  const { settings } = context;
  const userCode = context.exampleField(START_CLAIM_ROUTE, "claim_attempt.user_code");
  return {
    title: "Hand the account to a human",
    text: joinParagraphs([
      `A human can claim the account at any time. Its keys and balance stay the same, and your key keeps working. The first claim of each human adds ${creditsText(settings.claimBonusCredits)}, unless the gateway has reached its daily limit for such bonuses.`,
      "### Start a claim",
      "Ask the human for their email address, and for consent to use it. They must sign in with exactly this address.",
      context.curl(START_CLAIM_ROUTE),
      context.responseExample(START_CLAIM_ROUTE),
      "Send the human `verification_uri_complete` and the `user_code`, with a message like this:",
      `> To claim the account that I created, open this link and sign in as human@example.com. Check that the page shows the code ${userCode}, then confirm. Enter the code only on that page; I will not ask you for it.`,
      "Do not open the link yourself. The code expires after `expires_in` seconds. Starting another claim invalidates the previous link and code.",
      "`503` with `provider_not_configured` means that humans cannot sign in to this gateway. Do not try again; tell your human. Your key keeps working.",
      "### Poll for the result",
      `Send this request every \`interval\` seconds until the response is neither \`authorization_pending\` nor \`slow_down\`. The grant type is \`${claimGrantType(settings)}\`.`,
      context.curl(CLAIM_TOKEN_ROUTE),
      "`200` means that the account is claimed:",
      context.responseExample(CLAIM_TOKEN_ROUTE),
      'Any other status returns `{"error": …}`:',
      markdownTable(
        ["`error`", "Status", "Meaning", "What to do"],
        TOKEN_ERRORS.map((each) => [
          `\`${each.error}\``,
          String(each.status),
          each.meaning,
          each.next,
        ]),
      ),
      "### After the claim",
      "The account is now a workspace that the human owns. To invite another person, start a claim with their email address: they join as a developer and nothing else changes. Their keys share the limit of your key, if it has one, until the owner gives them an allowance. A key with a limit cannot start a claim in a claimed account.",
    ]),
  };
}
