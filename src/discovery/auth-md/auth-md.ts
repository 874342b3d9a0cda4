// /auth.md: the one page that an agent needs. Each section stands only where its routes do.

import { START_CLAIM_ROUTE } from "../route-keys.ts";
import { type DocContext, joinParagraphs, markdownTable } from "../doc-context.ts";
import { claimSection } from "./claim-section.ts";
import {
  storeKeySection,
  findKeySection,
  registerSection,
  type Section,
} from "./registration-sections.ts";
import { errorsSection, limitsSection, linksSection, retrySection } from "./reference-sections.ts";
import {
  buyCreditsSection,
  callModelSection,
  manageKeysSection,
  balanceSection,
} from "./usage-sections.ts";
import { creditsText, PRODUCT_NAME } from "../discovery-settings.ts";

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

function introduction(context: DocContext): string {
  const { settings } = context;
  const claimable = context.isMounted(START_CLAIM_ROUTE)
    ? " A human can take the account over later; your key keeps working."
    : "";
  return joinParagraphs([
    `# auth.md: how an agent gets into ${PRODUCT_NAME}`,
    `You are an agent, and this page is written for you. It is all that you need to open an account at ${settings.baseUrl}, to keep its key, to call a language model and to pay for it. None of that needs a browser or a human.${claimable}`,
    markdownTable(
      ["What", "Value"],
      [
        ["Base URL", `\`${settings.baseUrl}\``],
        ["For OpenAI's SDKs", `\`${settings.baseUrl}/v1\``],
        ["For Anthropic's SDKs", `\`${settings.baseUrl}\``],
        ["Authentication", "`authorization: Bearer <API_KEY>`, or `x-api-key: <API_KEY>`"],
        ["A key looks like", `\`${settings.keyPrefix}-rt-\` and 49 letters and digits`],
        ["You start with", creditsText(settings.startingCredits)],
      ],
    ),
    "Bodies and answers are JSON unless said otherwise. The commands need a POSIX shell and `curl`.",
  ]);
}
