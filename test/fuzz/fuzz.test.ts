// The short form of `npm run fuzz`, with another seed in each run.

import { describe, expect, test } from "bun:test";
import { TEST_SEED } from "../support/random.ts";
import { STORE_KINDS } from "../support/stores/stores.ts";
import { runFuzz } from "./fuzz.ts";

const REQUESTS = 250;

describe.each(STORE_KINDS)("generated requests on %s", (store) => {
  test("cause no 500, hang, open hold or wrong balance", async () => {
    const { failures } = await runFuzz({ seed: TEST_SEED, requests: REQUESTS, store });
    expect(failures).toEqual([]);
  });
});
