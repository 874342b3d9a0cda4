import { test } from "bun:test";
import { startWorld, APIS, WIRES, call, saying } from "./world.ts";
import { conclude } from "./conclude.ts";
test("probe", async () => {
  const w = await startWorld();
  for (const a of APIS) for (const x of WIRES) for (const stream of [false, true]) {
    const r = await call(w, a, saying(a, x, "hello there", { stream, ...(a === "chat" && stream ? {stream_options:{include_usage:true}}:{}) }));
    if (process.env.V) console.log(a, x, stream, r.status, r.text.slice(0, 600), "\n", JSON.stringify(w.sent.at(-1)).slice(0,400), [...r.headers].filter(([k])=>k.startsWith("x-postern")).join(" "));
  }
  await conclude(w, "probe");
  await w.stop();
}, 60000);
