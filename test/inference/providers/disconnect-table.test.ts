// docs/site/providers.md says for each provider whether a disconnect ends the bill: the same as the code.

import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { PROVIDERS } from "../../../src/inference/providers/providers.ts";

test("the table of disconnects has every provider, and `yes` exactly where billing stops", () => {
  const page = readFileSync(join(import.meta.dir, "../../../docs/site/providers.md"), "utf8");
  const section = page.split("## If a client disconnects")[1] ?? "";
  const rows = [...section.matchAll(/^\| `(\w+)` \| (yes|no|unknown) \|/gm)];
  expect(rows.map(([, id, ends]) => [id, ends === "yes"])).toEqual(
    PROVIDERS.map(({ id, stopsBillingOnAbort }) => [id, stopsBillingOnAbort]),
  );
});
