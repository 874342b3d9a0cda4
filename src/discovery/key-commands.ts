// How an agent creates its account and keeps the key: the same commands and rules in auth.md, llms.txt and the agent skill.

import { keyFilePath } from "./discovery-settings.ts";
import type { DocContext } from "./doc-context.ts";
import { REGISTER_ROUTE, START_CLAIM_ROUTE } from "./route-keys.ts";

export const KEY_IS_SHOWN_ONCE =
  "The response shows the key once; only the same request with the same `idempotency-key` shows it again, for ten minutes.";

export const KEY_STAYS_IN_FILE =
  "These commands write the response to a file that only you can read, so that the key never appears in a transcript:";

/** The commands write the response into the key file; `after` are further lines. */
export function registerCommands(context: DocContext, after: readonly string[] = []): string {
  const file = keyFilePath(context.settings);
  const idempotencyFile = idempotencyKeyPath(context);
  return context.curl(REGISTER_ROUTE, {
    before: [
      "umask 077",
      "mkdir -p ~/.postern",
      `[ -s ${idempotencyFile} ] || od -An -N16 -tx1 /dev/urandom | tr -d ' \\n' > ${idempotencyFile}`,
    ],
    extraArgs: [`-H "idempotency-key: $(cat ${idempotencyFile})"`, `-D - -o ${file}`],
    after,
  });
}

export function exportKeyLine({ settings }: DocContext): string {
  return `export POSTERN_API_KEY="$(sed -n 's/.*"api_key": *"\\([^"]*\\)".*/\\1/p' ${keyFilePath(settings)})"`;
}

/** The file that holds the idempotency key of the registration until its response is stored. */
export function idempotencyKeyPath({ settings }: DocContext): string {
  return keyFilePath(settings).replace(/json$/, "idempotency-key");
}

export function consentRules({ isMounted, settings }: DocContext): string {
  const links = [
    ...(isMounted(START_CLAIM_ROUTE) ? ["the claim link"] : []),
    ...(settings.hasPaymentPage === false ? [] : ["an invoice's `pay_url`"]),
  ];
  const rule =
    links.length === 0
      ? ""
      : ` Give them ${links.join(" and ")}, and never open these links yourself.`;
  return `Never print the key. Ask your human before you use their email address, and before you spend their money.${rule}`;
}
