// `postern verify-receipt`: checks a receipt with the gateway's public keys, or with a saved copy of them.

import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { verifyJws } from "../../base/crypto/jws.ts";
import type { JsonObject } from "../../base/json.ts";
import { RECEIPT_TYPE } from "../../receipts/receipt.ts";
import { type Command, EXIT_FAILURE, type ParsedArgs, stringFlag } from "../command.ts";
import { URL_FLAG } from "./gateway-url.ts";
import { KEYS_FLAG, readPublicKeys, readTextFile } from "./public-keys.ts";

export const verifyReceipt: Command = {
  summary: "Verify the signed receipt of a call",
  details:
    "<receipt> is the receipt itself or a file that has it. With --keys nothing is requested from the gateway.\nThe exit code is 1 if the receipt is not valid, or a file is not the one that it was made for.",
  positionals: ["receipt"],
  flags: {
    url: URL_FLAG,
    keys: KEYS_FLAG,
    request: stringFlag("<file>", "The body of the request, to compare with the receipt."),
    response: stringFlag("<file>", "The body of the reply, to compare with the receipt."),
  },
  run: async (args, cli) => {
    const [named = ""] = args.positionals;
    const receipt = (named.includes(".ey") ? named : readTextFile(named)).trim();
    const keys = await readPublicKeys(args, cli);
    const payload = verifyJws(receipt, RECEIPT_TYPE, (id) => keys.get(id));
    if (payload === undefined) {
      cli.printError("The receipt is not valid: it was changed, or another gateway signed it.");
      return EXIT_FAILURE;
    }
    cli.print(JSON.stringify(payload, undefined, 2));
    const mismatches = ["request", "response"].filter((name) => !matches(payload, name, args));
    for (const name of mismatches)
      cli.printError(`The ${name} is not the one of this receipt: its SHA-256 differs.`);
    return mismatches.length === 0 ? 0 : EXIT_FAILURE;
  },
};

function matches(payload: JsonObject, name: string, args: ParsedArgs): boolean {
  const file = args.value(name);
  if (file === undefined) return true;
  const hash = createHash("sha256").update(readFileSync(file)).digest("hex");
  return payload[`${name}_sha256`] === hash;
}
