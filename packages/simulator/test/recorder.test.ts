import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { eventually } from "../../../test/support/eventually.ts";
import {
  chatBody,
  json,
  readAll,
  serveSimulator,
  type SimulatorServer,
} from "./simulator-harness.ts";

let simulator: SimulatorServer;
beforeAll(() => {
  simulator = serveSimulator({ now: Date.now, maxRecordedRequests: 3 });
});
afterAll(() => simulator.stop());
beforeEach(async () => {
  await fetch(`${simulator.url}/sim/reset`, { method: "POST" });
});

const post = (body: BodyInit, init: RequestInit = {}) =>
  fetch(`${simulator.url}/v1/chat/completions?key=topsecret`, {
    method: "POST",
    body,
    headers: { authorization: "Bearer sk-secret-abcd", "x-extra": "1" },
    ...init,
  });
const stats = async () => json(fetch(`${simulator.url}/sim/stats`));

describe("recorded requests", () => {
  test("are listed newest first with exact bodies and masked keys", async () => {
    const body = `{ "model":"sim/echo",\t"messages":[{"role":"user","content":"\u00fc\\u00fc 1.0e0"}], "x":1.50 }`;
    await (await post(body)).text();
    const { data } = await json(fetch(`${simulator.url}/sim/requests?limit=1`));
    expect(data).toHaveLength(1);
    expect(data[0]).toMatchObject({
      method: "POST",
      path: "/v1/chat/completions?key=[secret]",
      body,
      body_bytes: new TextEncoder().encode(body).length,
    });
    expect(data[0].headers).toMatchObject({ authorization: "[secret …abcd]", "x-extra": "1" });
    expect(JSON.stringify(data)).not.toContain("sk-secret");
  });

  test("list a binary body as base64", async () => {
    await (await post(new Uint8Array([0xff, 0x00, 0xfe]))).text();
    const { data } = await json(fetch(`${simulator.url}/sim/requests`));
    expect(data[0]).toMatchObject({ body_base64: "/wD+", body_bytes: 3 });
  });

  test("keeps only the latest requests", async () => {
    for (let index = 0; index < 5; index++)
      await (await post(JSON.stringify(chatBody(`n${index}`)))).text();
    const { data } = await json(fetch(`${simulator.url}/sim/requests`));
    expect(
      data.map((entry: { body: string }) => JSON.parse(entry.body).messages[0].content),
    ).toEqual(["n4", "n3", "n2"]);
  });
});

describe("stream statistics", () => {
  const streaming = (text: string) => JSON.stringify(chatBody(text, { stream: true }));

  test("count a completed stream and its tokens", async () => {
    await readAll(await post(streaming("hi")));
    expect(await stats()).toMatchObject({
      requests: 1,
      open_streams: 0,
      completed_streams: 1,
      input_tokens: 1,
      output_tokens: 3,
      aborts: [],
    });
  });

  test("count an aborted stream", async () => {
    const control = new AbortController();
    const response = await post(streaming("hi [[sim: pace=5 chunks=10000]]"), {
      signal: control.signal,
    });
    const reader = response.body?.getReader();
    await reader?.read();
    expect(await stats()).toMatchObject({ open_streams: 1, aborted_streams: 0 });
    control.abort();
    await eventually(async () => (await stats()).open_streams === 0);
    const { aborts, aborted_streams } = await stats();
    expect(aborted_streams).toBe(1);
    expect(aborts[0]).toMatchObject({
      path: "/v1/chat/completions",
      model: "sim/echo",
      bytes: expect.any(Number),
    });
  });

  test.each([
    ["while it hangs", "hi [[sim: hang=1]]"],
    ["before the first byte", "hi [[sim: wait=never]]"],
  ])("count a stream whose client disconnects %s", async (_, text) => {
    const control = new AbortController();
    const call = post(streaming(text), { signal: control.signal })
      .then(readAll)
      .catch(() => undefined);
    await eventually(async () => (await stats()).open_streams === 1);
    control.abort();
    await call;
    await eventually(async () => (await stats()).open_streams === 0);
    expect((await stats()).aborted_streams).toBe(1);
  });

  test("count a cut stream separately from aborted ones", async () => {
    expect((await readAll(await post(streaming("hi [[sim: cut=1]]")))).isTruncated).toBe(true);
    expect(await stats()).toMatchObject({ cut_streams: 1, aborted_streams: 0, open_streams: 0 });
  });

  test("count 150 concurrent paced streams", async () => {
    const bodies = await Promise.all(
      Array.from(
        { length: 150 },
        async () => (await readAll(await post(streaming("hi [[sim: pace=2 chunks=20]]")))).text,
      ),
    );
    expect(bodies.every((text) => text.endsWith("[DONE]\n\n"))).toBe(true);
    expect(await stats()).toMatchObject({ completed_streams: 150, open_streams: 0 });
  });
});

test("rejects unknown control paths and wrong methods", async () => {
  expect((await fetch(`${simulator.url}/sim/else`)).status).toBe(404);
  expect((await fetch(`${simulator.url}/v1/chat/completions`)).status).toBe(405);
});
