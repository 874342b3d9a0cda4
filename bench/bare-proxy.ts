// A minimal proxy on Bun, for comparison: forwards each request with `fetch` and returns the reply. Started by ratios.ts with
// its port and the URL of the provider.

const [port, upstream] = process.argv.slice(2);
const HOP_BY_HOP = ["host", "connection", "content-length"];

Bun.serve({
  hostname: "127.0.0.1",
  port: Number(port),
  idleTimeout: 0,
  fetch: async (request) => {
    const { pathname, search } = new URL(request.url);
    const headers = new Headers(request.headers);
    for (const name of HOP_BY_HOP) headers.delete(name);
    const { method } = request;
    const body = method === "GET" ? null : await request.bytes();
    const {
      status,
      headers: sent,
      body: replied,
    } = await fetch(`${upstream}${pathname}${search}`, { method, headers, body });
    const contentType = sent.get("content-type") ?? "application/octet-stream";
    return new Response(replied, { status, headers: { "content-type": contentType } });
  },
});
