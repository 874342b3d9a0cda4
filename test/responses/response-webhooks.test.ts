// The events of background responses as a receiver gets them: over HTTP, verified with OpenAI's SDK.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import OpenAI, { InvalidWebhookSignatureError } from "openai";
import type { Json } from "../inference/support/harness.ts";
import { eventually } from "../support/eventually.ts";
import type { Gateway, TestAccount } from "../support/gateway.ts";
import { STORE_KINDS } from "../support/stores/stores.ts";
import { isValidSignature } from "../webhooks/verify-signature.ts";
import { startReceiver, type WebhookReceiver } from "../webhooks/webhook-receiver.ts";
import { call, cancelResponse, fundedAccount, getResponse, openGateway } from "./harness.ts";

/** Requests by how they end. */
const ENDS: Readonly<Record<string, Json>> = {
  completed: { input: "Hi" },
  incomplete: { input: "[[sim: tokens=400]]", max_output_tokens: 16 },
  failed: { input: "[[sim: status=400]]" },
  cancelled: { input: "[[sim: latency=600000]]" },
};

for (const store of STORE_KINDS)
  describe(`webhooks of background responses on ${store}`, () => {
    const openai = new OpenAI({ apiKey: "unused" });
    let gateway: Gateway;
    let account: TestAccount;
    let receiver: WebhookReceiver;
    let secret: string;
    beforeAll(async () => {
      receiver = startReceiver();
      gateway = await openGateway({ store });
      account = await fundedAccount(gateway);
      const body = { url: receiver.url, events: Object.keys(ENDS).map((end) => `response.${end}`) };
      secret = String((await call(gateway, account, "POST /v1/webhooks", { body })).json["secret"]);
    });
    afterAll(async () => {
      await gateway.stop();
      await receiver.close();
    });

    for (const [window, options] of [
      ["at once", {}],
      ["within a window", { background_options: { completion_window: "2h" } }],
    ] as const)
      test.each(Object.entries(ENDS))(`%s ${window}`, async (status, fields) => {
        const body = { model: "sim/echo", background: true, ...options, ...fields };
        const { json: created } = await call(gateway, account, "POST /v1/responses", { body });
        const id = String(created["id"]);
        if (status === "cancelled") await cancelResponse(gateway, account, id);
        const received = await eventually(
          () =>
            receiver.received.find(({ event }) => (event["data"] as Json)["id"] === id) ?? false,
        );
        expect(isValidSignature(secret, received.headers, received.body, Date.now())).toBe(true);
        const event = await openai.webhooks.unwrap(received.body, received.headers, secret);
        expect(event).toMatchObject({ type: `response.${status}`, data: { id } });
        expect(Object.keys(event.data)).toEqual(["id"]);
        expect(event.id).toBe(String(received.headers.get("webhook-id")));
        const forged = received.body.replace(id, "resp_other");
        const refusal = await openai.webhooks.unwrap(forged, received.headers, secret).then(
          () => undefined,
          (error: unknown) => error,
        );
        expect(refusal).toBeInstanceOf(InvalidWebhookSignatureError);
        const { json } = await getResponse(gateway, account, id);
        expect(json["status"]).toBe(status);
      });

    test("each is sent once", async () => {
      const { json } = await call(gateway, account, "GET /v1/events?limit=100");
      const ends = (json["data"] as readonly Json[]).filter(({ type }) =>
        String(type).startsWith("response."),
      );
      expect(ends.length).toBe(2 * Object.keys(ENDS).length);
      expect(receiver.received.map(({ event }) => String(event["id"])).toSorted()).toEqual(
        ends.map(({ id }) => String(id)).toSorted(),
      );
    });
  });
