// Every route that changes something leaves an audit entry.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { describeEachStore } from "../support/stores/stores.ts";
import { openWorld, REQUESTS, type World } from "./mutating-requests.ts";

const MODEL_CALL = "a model call: its record is the usage record";
const STORED_RESPONSE = "a stored response belongs to a model call";

/** Routes without an entry, and why. */
const WITHOUT_ENTRY: Readonly<Record<string, string>> = {
  createChatCompletion: MODEL_CALL,
  createResponse: MODEL_CALL,
  createMessage: MODEL_CALL,
  generateContent: MODEL_CALL,
  streamGenerateContent: MODEL_CALL,
  countContentTokens: MODEL_CALL,
  embedContent: MODEL_CALL,
  batchEmbedContents: MODEL_CALL,
  createEmbeddings: MODEL_CALL,
  createImages: MODEL_CALL,
  editImages: MODEL_CALL,
  createDecision: MODEL_CALL,
  createCompletion: MODEL_CALL,
  createSpeech: MODEL_CALL,
  createTranscription: MODEL_CALL,
  createTranslation: MODEL_CALL,
  createModeration: MODEL_CALL,
  rerankDocuments: MODEL_CALL,
  rerankDocumentsV2: MODEL_CALL,
  compactResponse: MODEL_CALL,
  countTokens: "changes nothing",
  countInputTokens: "changes nothing",
  createQuote: "changes nothing",
  deleteResponse: STORED_RESPONSE,
  cancelResponse: STORED_RESPONSE,
  pollClaim: "a token endpoint",
  registerMcpClient: "belongs to no account, and stores nothing",
  startDeviceSignIn: "belongs to no account before a person approves it",
  enterClaimCode: "finds a claim; the decision on it has an entry",
  payInvoice: "leads to the processor's page; a payment is a ledger transfer and an event",
  chooseSignIn: "changes nothing",
  changeTimeZone: "how pages show times to one person",
  callMcp: "calls other endpoints, which have entries",
};

describeEachStore((kind) => {
  describe(`routes that change something, on ${kind}`, () => {
    let world: World;
    beforeAll(async () => {
      world = await openWorld(kind);
    });
    afterAll(() => world.gateway.stop());

    test("have a valid request, or a reason for no entry", () => {
      const mutating = world.gateway.server.routes
        .filter(({ method }) => method !== "GET")
        .map(({ id }) => id);
      expect(mutating.toSorted()).toEqual(
        [...Object.keys(REQUESTS), ...Object.keys(WITHOUT_ENTRY)].toSorted(),
      );
    });

    test.each(Object.entries(REQUESTS))("%s leaves an audit entry", async (_id, prepare) => {
      const { db } = world.gateway.server;
      const entries = async () => (await db.all("select id from audit")).length;
      const request = await prepare(world);
      const before = await entries();
      const { status } = await request();
      expect(status).toBeLessThan(400);
      expect(await entries()).toBeGreaterThan(before);
    });
  });
});
