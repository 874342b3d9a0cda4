import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { chatBody, json, readAll, serveSimulator, type SimulatorServer } from "./harness.ts";

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

async function waitUntil(condition: () => Promise<boolean>, ms = 1_000): Promise<void> {
  const end = performance.now() + ms;
  while (performance.now() < end) {
    if (await condition()) return;
    await Bun.sleep(2);
  }
  throw new Error(`not within ${ms} ms`);
}

describe("requests", () => {
  test("are kept as they came, without secrets, newest first", async () => {
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

  test("that are no text are kept as bytes", async () => {
    await (await post(new Uint8Array([0xff, 0x00, 0xfe]))).text();
    const { data } = await json(fetch(`${simulator.url}/sim/requests`));
    expect(data[0]).toMatchObject({ body_base64: "/wD+", body_bytes: 3 });
  });

  test("are bounded", async () => {
    for (let index = 0; index < 5; index++)
      await (await post(JSON.stringify(chatBody(`n${index}`)))).text();
    const { data } = await json(fetch(`${simulator.url}/sim/requests`));
    expect(
      data.map((entry: { body: string }) => JSON.parse(entry.body).messages[0].content),
    ).toEqual(["n4", "n3", "n2"]);
  });
});

describe("streams", () => {
  const streaming = (words: string) => JSON.stringify(chatBody(words, { stream: true }));

  test("that end are counted with their tokens", async () => {
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

  test("whose client leaves are known to be gone within a second", async () => {
    const control = new AbortController();
    const response = await post(streaming("hi [[sim: pace=5 chunks=10000]]"), {
      signal: control.signal,
    });
    const reader = response.body?.getReader();
    await reader?.read();
    expect(await stats()).toMatchObject({ open_streams: 1, aborted_streams: 0 });
    const left = Date.now();
    control.abort();
    await waitUntil(async () => (await stats()).open_streams === 0);
    const { aborts, aborted_streams } = await stats();
    expect(aborted_streams).toBe(1);
    expect(aborts[0].aborted_at - left).toBeLessThan(1_000);
    expect(aborts[0]).toMatchObject({
      path: "/v1/chat/completions",
      model: "sim/echo",
      bytes: expect.any(Number),
    });
  });

  test.each([
    ["in silence", "hi [[sim: hang=1]]"],
    ["before the first byte", "hi [[sim: latency=5000]]"],
  ])("whose client leaves %s are known to be gone", async (_, words) => {
    const control = new AbortController();
    const call = post(streaming(words), { signal: control.signal })
      .then(readAll)
      .catch(() => undefined);
    await waitUntil(async () => (await stats()).open_streams === 1);
    control.abort();
    await call;
    await waitUntil(async () => (await stats()).open_streams === 0);
    expect((await stats()).aborted_streams).toBe(1);
  });

  test("that were cut are told apart", async () => {
    expect((await readAll(await post(streaming("hi [[sim: cut=1]]")))).isTruncated).toBe(true);
    expect(await stats()).toMatchObject({ cut_streams: 1, aborted_streams: 0, open_streams: 0 });
  });

  test("by the hundred, paced, share their timers", async () => {
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

test("the simulator's own paths", async () => {
  expect((await fetch(`${simulator.url}/sim/else`)).status).toBe(404);
  expect((await fetch(`${simulator.url}/v1/chat/completions`)).status).toBe(405);
});
