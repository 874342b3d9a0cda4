// `postern verify-proof`: checks a proof of the ledger with the gateway's public keys, or with a saved copy of them.

import { arrayIn, objectIn, parseObject, type JsonObject } from "../../base/json.ts";
import { formatUsdExact } from "../../base/text/format.ts";
import { verifyLog, verifyProof } from "../../ledger-proofs/verify-proof.ts";
import { type Command, stringFlag } from "../command.ts";
import { URL_FLAG } from "./gateway-url.ts";
import { KEYS_FLAG, readPublicKeys, readTextFile } from "./public-keys.ts";

export const verifyLedgerProof: Command = {
  summary: "Verify the proof of a balance and its entries",
  details:
    "<proof> is a file with the reply of GET /v1/ledger/proof. With --keys nothing is requested from the gateway.\nThe exit code is 1 if the proof is not valid.",
  positionals: ["proof"],
  flags: {
    url: URL_FLAG,
    keys: KEYS_FLAG,
    account: stringFlag("<id>", "The account that the proof must be of."),
    day: stringFlag("<day>", "The UTC day that it must be of."),
    roots: stringFlag(
      "<file>",
      "A mirror: a saved reply of GET /v1/ledger/roots, which must have the record.",
    ),
  },
  run: async (args, cli) => {
    const proof = readObject(args.positionals[0] ?? "");
    const keys = await readPublicKeys(args, cli);
    const publicKeyOf = (id: string): string | undefined => keys.get(id);
    const expected = { account: args.value("account"), day: args.value("day") };
    const proven = verifyProof(proof, publicKeyOf, expected);
    const roots = args.value("roots");
    if (roots !== undefined) {
      const mirror = readObject(roots);
      verifyLog(mirror, publicKeyOf, { size: 0 });
      if (!hasRecord(mirror, objectIn(proof["record"]) ?? {}))
        throw new Error("the mirror has another record of this day: the log was rewritten");
    }
    cli.print(
      [
        `The proof is valid: ${proven.iss} published and signed it.`,
        `account      ${proven.account}`,
        `day          ${proven.day}`,
        `balance      ${formatUsdExact(proven.balanceNano)} of ${formatUsdExact(proven.liabilitiesNano)} of all accounts`,
        `entries      ${proven.verifiedEntries} of ${proven.entries} verified; all change the balance by ${formatUsdExact(proven.netNano)}`,
      ].join("\n"),
    );
    return 0;
  },
};

function hasRecord(mirror: JsonObject, { leaf, index }: JsonObject): boolean {
  return arrayIn(mirror["data"])
    .map((day) => objectIn(day) ?? {})
    .some((day) => day["index"] === index && day["record"] === leaf);
}

function readObject(file: string): JsonObject {
  const object = parseObject(readTextFile(file));
  if (object === undefined) throw new Error(`${file} is not a JSON object.`);
  return object;
}
