// /auth.md: the one page that an agent needs. Each section stands only where its routes do.

import { CLAIM_START } from "./addresses.ts";
import { type Desk, paragraphs, table } from "./desk.ts";
import { handOver } from "./manifest-claim.ts";
import { keepKey, lookFirst, register, type Section } from "./manifest-entry.ts";
import { errors, limits, links, tryAgain } from "./manifest-reference.ts";
import { buyCredits, callModel, lookAfterKeys, watchBalance } from "./manifest-use.ts";
import { creditsText, NAME } from "./settings.ts";

type Writer = (desk: Desk) => Section | undefined;

const SECTIONS: readonly Writer[] = [
  lookFirst,
  register,
  keepKey,
  callModel,
  watchBalance,
  buyCredits,
  lookAfterKeys,
  handOver,
  errors,
  tryAgain,
  limits,
  links,
];

export function authManifest(desk: Desk): string {
  const sections = SECTIONS.map((write) => write(desk)).filter((section) => section !== undefined);
  return `${paragraphs([preamble(desk), ...sections.map(({ title, text }) => `## ${title}\n\n${text}`)])}\n`;
}

function preamble(desk: Desk): string {
  const { settings } = desk;
  const claimable = desk.has(CLAIM_START)
    ? " A human can take the account over later; your key keeps working."
    : "";
  return paragraphs([
    `# auth.md: how an agent gets into ${NAME}`,
    `You are an agent, and this page is written for you. It is all that you need to open an account at ${settings.baseUrl}, to keep its key, to call a language model and to pay for it. None of that needs a browser or a human.${claimable}`,
    table(
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
