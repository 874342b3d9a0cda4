// auth.md, the way in: look for a key, register, keep the key.

import { REGISTER_ROUTE } from "../route-keys.ts";
import { type DocContext, codeBlock, successStatus, joinParagraphs } from "../doc-context.ts";
import { keyFilePath } from "../discovery-settings.ts";

export interface Section {
  readonly title: string;
  readonly text: string;
}

export function findKeySection(context: DocContext): Section {
  const { settings } = context;
  return {
    title: "Look for a key first",
    text: joinParagraphs([
      `Do not open a second account where one will do. Look in these places, in this order, for a key that begins with \`${settings.keyPrefix}-rt-\`:`,
      [
        "1. the environment variable `POSTERN_API_KEY`;",
        `2. the file \`${keyFilePath(settings)}\`, which *Register* below writes and *Keep the key* reads;`,
        "3. the project's own secret store or `.env`, if your human lets you read it.",
      ].join("\n"),
      "If you find one, check it:",
      context.curl("GET /v1/account"),
      "`200`: the key works; go on with *Call a model*. `401`: the key is dead; drop it and go on with *Register*. Any other status says nothing about the key; see *Errors*.",
    ]),
  };
}

export function registerSection(context: DocContext): Section | undefined {
  if (!context.isMounted(REGISTER_ROUTE)) return undefined;
  const file = keyFilePath(context.settings);
  const idempotencyFile = idempotencyKeyPath(context);
  return {
    title: "Register",
    text: joinParagraphs([
      "One call opens the account. It needs no key, no browser and no human.",
      "**Ask your human before you use their e-mail address.** If they gave you none, send `{}`: nothing on this page depends on it.",
      "This writes the answer straight into a file that only you can read, so that the key never shows up in a transcript:",
      context.curl(REGISTER_ROUTE, {
        before: [
          "umask 077",
          "mkdir -p ~/.postern",
          `[ -s ${idempotencyFile} ] || od -An -N16 -tx1 /dev/urandom | tr -d ' \\n' > ${idempotencyFile}`,
        ],
        extraArgs: [`-H "idempotency-key: $(cat ${idempotencyFile})"`, `-D - -o ${file}`],
      }),
      `The headers are printed. Status \`${successStatus(context, REGISTER_ROUTE)}\` means that you are in, and the file holds something like:`,
      context.responseExample(REGISTER_ROUTE),
      "What you may send:",
      context.bodyFields(REGISTER_ROUTE),
      "With any other status the file holds an error: read it, and see *Errors*. If no answer came, run the same lines again: the same `idempotency-key` gets the first answer again and not a second account.",
    ]),
  };
}

export function storeKeySection(context: DocContext): Section {
  const { settings } = context;
  const file = keyFilePath(settings);
  return {
    title: "Keep the key",
    text: joinParagraphs([
      "The raw key is shown once. Only a hash of it is stored, so nobody can show it again. Whoever holds it can spend the balance.",
      codeBlock(
        "sh",
        [
          `chmod 600 ${file}`,
          `rm -f ${idempotencyKeyPath(context)}`,
          `export POSTERN_API_KEY="$(sed -n 's/.*"api_key": *"\\([^"]*\\)".*/\\1/p' ${file})"`,
        ].join("\n"),
      ),
      [
        "- Refer to it as `$POSTERN_API_KEY`. Never print it, and never put it into a chat, a log, a URL or a commit.",
        `- Send it to \`${settings.baseUrl}\` and to no other host.`,
        `- Tell your human that the account exists and where the key is kept (\`${file}\`), not the key itself.`,
        "- If each of your commands runs in a new shell, put the `export` line in front of each.",
        "- A lost key cannot be recovered; another live key of the account can mint a new one.",
      ].join("\n"),
    ]),
  };
}

/** Holds the idempotency key of a registration until its answer is safe. */
function idempotencyKeyPath(context: DocContext): string {
  return keyFilePath(context.settings).replace(/json$/, "once");
}
