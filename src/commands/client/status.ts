// `postern status`: the balance and the last calls of the account whose key is on this machine.

import { arrayIn, numberIn, objectIn, stringIn } from "../../base/json.ts";
import { pluralize } from "../../base/text/format.ts";
import type { Command } from "../command.ts";
import { request } from "./gateway-client.ts";
import { gatewayUrl, URL_FLAG } from "./gateway-url.ts";
import { keyFilePath, readKey } from "./key-file.ts";

const CALLS_SHOWN = 5;

export const status: Command = {
  summary: "Show the balance and the last calls of your account at a gateway",
  positionals: [],
  flags: { url: URL_FLAG },
  run: async (args, cli) => {
    const url = gatewayUrl(args, cli);
    const { homeFolder, apiKey } = cli.client;
    const key = readKey(homeFolder, url) ?? apiKey;
    if (key === undefined)
      throw new Error(
        `There is no key in ${keyFilePath(homeFolder, url)} or POSTERN_API_KEY. Run postern connect <client>, or set --url.`,
      );
    const { account, balance } = await request(url, "GET /v1/account", { key });
    const { data } = await request(url, `GET /v1/usage?limit=${CALLS_SHOWN}`, { key });
    const { credits, usd } = objectIn(balance) ?? {};
    cli.print(`account  ${stringIn(objectIn(account)?.["id"]) ?? ""} at ${url}`);
    cli.print(`balance  $${String(usd)} (${pluralize(numberIn(credits) ?? 0, "credit")})`);
    for (const call of arrayIn(data).map((entry) => objectIn(entry) ?? {})) {
      const [at, model, outcome, cost] = ["created_at", "model", "outcome", "cost_usd"].map(
        (name) => stringIn(call[name]) ?? "",
      );
      cli.print(`${at}  ${model}  ${outcome}  $${cost}`);
    }
    return 0;
  },
};
