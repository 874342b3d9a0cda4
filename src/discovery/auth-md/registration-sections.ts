// auth.md: find an existing key, register, store the key.

import { keyFilePath } from "../discovery-settings.ts";
import { type DocContext, codeBlock, successStatus, joinParagraphs } from "../doc-context.ts";
import {
  exportKeyLine,
  idempotencyKeyPath,
  KEY_IS_SHOWN_ONCE,
  KEY_STAYS_IN_FILE,
  registerCommands,
} from "../key-commands.ts";
import { REGISTER_ROUTE } from "../route-keys.ts";

export interface Section {
  readonly title: string;
  readonly text: string;
}

export function findKeySection(context: DocContext): Section {
  const { settings } = context;
  return {
    title: "Find an existing key",
    text: joinParagraphs([
      `Create an account only if you have none. First look for a key that begins with \`${settings.keyPrefix}-rt-\`, in this order:`,
      [
        "1. the environment variable `POSTERN_API_KEY`",
        `2. the file \`${keyFilePath(settings)}\`, which *Register* writes and *Store the key* reads`,
        "3. the project's secret store or `.env` file, if your human allows you to read it",
      ].join("\n"),
      "If you find a key, check it:",
      context.curl("GET /v1/account"),
      "`200`: the key works; continue with *Call a model*. `401`: the key is not valid; discard it and continue with *Register*. Any other status says nothing about the key; see *Errors*.",
    ]),
  };
}

export function registerSection(context: DocContext): Section | undefined {
  if (!context.isMounted(REGISTER_ROUTE)) return undefined;
  return {
    title: "Register",
    text: joinParagraphs([
      "One request creates the account. It needs no key, no browser and no human.",
      "**Ask your human before you use their email address.** Without an address, send `{}`: nothing on this page depends on it.",
      KEY_STAYS_IN_FILE,
      registerCommands(context),
      `\`curl\` prints the response headers. Status \`${successStatus(context, REGISTER_ROUTE)}\` means that the account was created. The file then contains something like:`,
      context.responseExample(REGISTER_ROUTE),
      "Request fields:",
      context.bodyFields(REGISTER_ROUTE),
      ...proofParagraphs(context),
      ...verifiedAgentParagraphs(context),
      ...grantParagraphs(context),
      "With any other status, the file contains an error; see *Errors*. If you got no response, run the same commands again from the same address within ten minutes: the same `idempotency-key` returns the first response.",
    ]),
  };
}

const SOLVER = `python3 -c 'import hashlib, itertools, sys
challenge = sys.argv[1]
bits = int(challenge.split(".")[0])
print(next(text for text in (f"{challenge}.{n}" for n in itertools.count())
    if int.from_bytes(hashlib.sha256(text.encode()).digest(), "big") >> (256 - bits) == 0))' "$CHALLENGE"`;

/** Empty unless new accounts need a proof of work. */
function proofParagraphs({ settings }: DocContext): readonly string[] {
  const { proofOfWorkBits = 0 } = settings;
  if (proofOfWorkBits === 0) return [];
  return [
    `**This gateway asks for a proof of work.** The first request gets \`403 proof_of_work_required\` with \`proof_of_work.challenge\`. Append \`.\` and a number to the challenge, so that the SHA-256 of the whole text begins with ${proofOfWorkBits} zero bits. This program prints such a text:`,
    codeBlock("sh", SOLVER),
    'Then run the same commands again with `-H "proof-of-work: <the text>"`, from the same network, within ten minutes. Each challenge works once.',
  ];
}

/** Empty unless the gateway lists operators of agents. */
function verifiedAgentParagraphs({ settings }: DocContext): readonly string[] {
  const { verifiedAgents = [] } = settings;
  if (verifiedAgents.length === 0) return [];
  return [
    `Agents of ${verifiedAgents.join(", ")} that sign this request (Web Bot Auth) have a quota and a starting credit of their own${settings.proofOfWorkBits === 0 ? "" : ", and need no proof of work"}. A wrong signature is a \`403\`; without one, the limits of your network apply.`,
  ];
}

/** Empty unless the starting credit of a day is limited. */
function grantParagraphs({ settings }: DocContext): readonly string[] {
  if (settings.grants === undefined) return [];
  return [
    settings.grants.whenExhausted === "create"
      ? "If `balance.credits` is `0`, the gateway has used up its starting credits for today (UTC). Keep the account and its key: they work. `next` lists how to fund the account, as `{method, url, body, why}`; do one of these steps before you call a model."
      : "The starting credits of a day are limited. If they are used up, the status is `429` until midnight UTC.",
    "Status `429` also means that your network has opened too many accounts, or has used its share of today's starting credits. Wait for `retry-after` seconds, then run the same commands again.",
  ];
}

export function storeKeySection(context: DocContext): Section {
  const { settings } = context;
  const file = keyFilePath(settings);
  return {
    title: "Store the key",
    text: joinParagraphs([
      `${KEY_IS_SHOWN_ONCE} Otherwise the gateway has only a hash of it. Anyone who has the key can spend the balance.`,
      codeBlock(
        "sh",
        [`chmod 600 ${file}`, `rm -f ${idempotencyKeyPath(context)}`, exportKeyLine(context)].join(
          "\n",
        ),
      ),
      [
        "- Refer to the key as `$POSTERN_API_KEY`. Never print it, and never put it in a chat, a log, a URL or a commit.",
        `- Send it only to \`${settings.baseUrl}\`.`,
        `- Tell your human that the account exists and where the key is stored (\`${file}\`). Do not tell them the key.`,
        "- If each command runs in a new shell, start each command with the `export` line.",
        "- A lost key cannot be recovered. Another active key of the account can create a new one.",
      ].join("\n"),
    ]),
  };
}
