// Cohere's SDK, unmodified: rerank, in both of its versions.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { Cohere, CohereClient, CohereClientV2 } from "cohere-ai";
import { expectSettledLedger } from "../inference/support/harness.ts";
import { caughtError, type SdkHarness, startSdkHarness } from "./harness.ts";

const DOCUMENTS = ["Berlin is in Germany.", "The capital of France is Paris."];
const SEARCH = { query: "What is the capital of France?", documents: DOCUMENTS };

let harness: SdkHarness;
let client: CohereClientV2;

beforeAll(async () => {
  harness = await startSdkHarness(["sim", "cohere"]);
  client = clientFor(harness.account.key);
});
afterAll(async () => {
  await expectSettledLedger(harness.gateway.server.db);
  await harness.stop();
});

function clientFor(token: string): CohereClientV2 {
  return new CohereClientV2({ token, environment: harness.gateway.url, maxRetries: 0 });
}

test.each(["sim/rerank", "sim/rerank-tokens", "cohere/rerank-v4.0-pro"])(
  "the cohere-ai package reranks with %s",
  async (model) => {
    const { data, rawResponse } = await client
      .rerank({ model, ...SEARCH, topN: 1 })
      .withRawResponse();
    expect(data.results).toEqual([{ index: 1, relevanceScore: expect.any(Number) }]);
    const billed = data.meta?.billedUnits;
    expect([data.meta?.apiVersion?.version, billed?.searchUnits ?? billed?.inputTokens]).toEqual([
      "2",
      expect.any(Number),
    ]);
    expect(Number(rawResponse.headers.get("x-postern-cost-usd"))).toBeGreaterThan(0);
  },
);

test("the client of Cohere's first version gets the documents", async () => {
  const first = new CohereClient({
    token: harness.account.key,
    environment: harness.gateway.url,
    maxRetries: 0,
  });
  const { results } = await first.rerank({
    model: "sim/rerank",
    ...SEARCH,
    topN: 1,
    returnDocuments: true,
  });
  expect(results).toEqual([
    { index: 1, relevanceScore: expect.any(Number), document: { text: DOCUMENTS[1] ?? "" } },
  ]);
});

test("throws its typed errors for 400, 401 and 404", async () => {
  for (const [calling, type] of [
    [client.rerank({ model: "sim/rerank", query: "", documents: ["a"] }), Cohere.BadRequestError],
    [clientFor("sk-wrong").rerank({ model: "sim/rerank", ...SEARCH }), Cohere.UnauthorizedError],
    [client.rerank({ model: "sim/unknown", ...SEARCH }), Cohere.NotFoundError],
  ] as const)
    expect(await caughtError(calling)).toBeInstanceOf(type);
});
