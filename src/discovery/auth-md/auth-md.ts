// /auth.md: the page from which an agent learns to use the gateway. A section appears only if its routes are mounted.

import type { DiscoverySettings } from "../discovery-settings.ts";
import { creditsText, PRODUCT_NAME } from "../discovery-settings.ts";
import { type DocContext, joinParagraphs, markdownTable } from "../doc-context.ts";
import { START_CLAIM_ROUTE } from "../route-keys.ts";
import { claimSection } from "./claim-section.ts";
import { errorsSection, limitsSection, linksSection, retrySection } from "./reference-sections.ts";
import {
  storeKeySection,
  findKeySection,
  registerSection,
  type Section,
} from "./registration-sections.ts";
import {
  buyCreditsSection,
  callModelSection,
  manageKeysSection,
  balanceSection,
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
        ["Base URL for Anthropic SDKs", `\`${settings.baseUrl}\``],
        ["Authentication", "`authorization: Bearer <API_KEY>`, or `x-api-key: <API_KEY>`"],
        ["Key format", `\`${settings.keyPrefix}-rt-\` followed by 49 letters and digits`],
        ["Starting credits", creditsText(settings.startingCredits)],
      ],
    ),
    "Request and response bodies are JSON unless stated otherwise. The commands need a POSIX shell and `curl`.",
  ]);
}
