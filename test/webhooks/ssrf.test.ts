import { describe, expect, test } from "bun:test";
import { createServer } from "node:net";
import { isPublicAddress } from "../../src/base/network/public-address.ts";
import {
  resolveAllowedAddresses,
  type PublicEndpoint,
  parseEndpoint,
} from "../../src/base/network/public-endpoint.ts";
import { send, type SendResult } from "../../src/base/network/send-to-endpoint.ts";
import { openStore } from "../support/stores/stores.ts";
import { createHarness } from "./harness.ts";
import { startReceiver } from "./webhook-receiver.ts";

const REJECTED_URLS: readonly (readonly [label: string, url: string])[] = [
  ["no TLS", "http://example.com/"],
  ["another protocol", "ftp://example.com/"],
  ["a file", "file:///etc/passwd"],
  ["a script", "javascript:alert(1)"],
  ["data", "data:text/plain,hello"],
  ["gopher", "gopher://example.com:70/_GET"],
  ["no protocol", "example.com/hook"],
  ["nothing", " "],
  ["the SSH port", "https://example.com:22/"],
  ["the PostgreSQL port", "https://example.com:5432/"],
  ["a high port", "https://example.com:8444/"],
  ["port zero", "https://example.com:0/"],
  ["a user name", "https://user@example.com/"],
  ["a user name and a password", "https://user:password@example.com/"],
  ["another host as the user name", "https://example.com@127.0.0.1/"],
  ["a fragment", "https://example.com/#x"],
  ["loopback", "https://127.0.0.1/"],
  ["loopback, short", "https://127.1/"],
  ["loopback, as one number", "https://2130706433/"],
  ["loopback, hexadecimal", "https://0x7f.0x0.0x0.0x1/"],
  ["loopback, one hexadecimal number", "https://0x7f000001/"],
  ["loopback, octal", "https://0177.0.0.1/"],
  ["loopback, with percent signs", "https://%31%32%37.0.0.1/"],
  ["loopback, full width", "https://１２７.０.０.１/"],
  ["loopback, circled digits", "https://①②⑦.⓪.⓪.①/"],
  ["loopback, ideographic full stops", "https://127。0。0。1/"],
  ["loopback, trailing dot", "https://127.0.0.1./"],
  ["another loopback", "https://127.255.255.254/"],
  ["this host", "https://0.0.0.0/"],
  ["this host, short", "https://0/"],
  ["IPv6 loopback", "https://[::1]/"],
  ["IPv6 loopback, long form", "https://[0:0:0:0:0:0:0:1]/"],
  ["IPv6 unspecified address", "https://[::]/"],
  ["IPv4-mapped loopback", "https://[::ffff:127.0.0.1]/"],
  ["IPv4-mapped loopback, hexadecimal", "https://[::ffff:7f00:1]/"],
  ["NAT64 loopback", "https://[64:ff9b::127.0.0.1]/"],
  ["a private address", "https://10.0.0.1/"],
  ["a private address of a home network", "https://192.168.1.1/"],
  ["a private address of a container network", "https://172.17.0.1/"],
  ["a cloud metadata server", "https://169.254.169.254/latest/meta-data/"],
  ["a cloud metadata server, as one number", "https://2852039166/"],
  ["a cloud metadata server, IPv6", "https://[fd00:ec2::254]/"],
  ["a public IPv4 address", "https://1.1.1.1/"],
  ["a public IPv6 address", "https://[2606:4700:4700::1111]/"],
  ["localhost", "https://localhost/"],
  ["LOCALHOST with a trailing dot", "https://LOCALHOST./"],
  ["a subdomain of localhost", "https://a.localhost/"],
  ["a name without a dot", "https://metadata/"],
  ["a cloud metadata server, by name", "https://metadata.google.internal/"],
  ["a local network name", "https://printer.local/"],
  ["a home network name", "https://router.home.arpa/"],
  ["a Kubernetes service", "https://kubernetes.default.svc/"],
  ["a Kubernetes service with a trailing dot", "https://kubernetes.default.SVC./"],
  ["a Kubernetes service with its domain", "https://kubernetes.default.svc.cluster.local/"],
  ["a company's network name", "https://wiki.corp/"],
  ["a URL that is too long", `https://example.com/${"a".repeat(2_048)}`],
];

const PRIVATE_ADDRESSES = [
  "0.0.0.0",
  "0.1.2.3",
  "10.0.0.1",
  "10.255.255.255",
  "100.64.0.1",
  "100.100.100.200",
  "100.127.255.255",
  "127.0.0.1",
  "127.255.255.255",
  "168.63.129.16",
  "169.254.0.1",
  "169.254.169.254",
  "169.254.170.2",
  "172.16.0.1",
  "172.31.255.255",
  "192.0.0.192",
  "192.0.2.1",
  "192.88.99.1",
  "192.168.0.1",
  "198.18.0.1",
  "198.19.255.255",
  "198.51.100.1",
  "203.0.113.1",
  "224.0.0.1",
  "239.255.255.255",
  "240.0.0.1",
  "255.255.255.255",
  "::",
  "::1",
  "::127.0.0.1",
  "::ffff:8.8.8.8",
  "::ffff:127.0.0.1",
  "::ffff:169.254.169.254",
  "::ffff:0:127.0.0.1",
  "64:ff9b::7f00:1",
  "64:ff9b:1::a00:1",
  "100::1",
  "2001::1",
  "2001:db8::1",
  "2002:7f00:1::1",
  "2002:a00:1::1",
  "3fff::1",
  "5f00::1",
  "fc00::1",
  "fd00:ec2::254",
  "fd20:ce::254",
  "fe80::1",
  "fe80::1%eth0",
  "2606:4700::1%eth0",
  "fec0::1",
  "ff02::1",
  "not an address",
  "",
];

const PUBLIC_ADDRESSES = [
  "1.1.1.1",
  "8.8.8.8",
  "100.63.255.255",
  "100.128.0.0",
  "172.15.255.255",
  "172.32.0.0",
  "192.167.255.255",
  "223.255.255.255",
  "2001:4860:4860::8888",
  "2606:4700:4700::1111",
  "2a00:1450:4001:81b::200e",
];

describe("parseEndpoint", () => {
  for (const [label, url] of REJECTED_URLS)
    test(`rejects ${label}`, () => {
      expect(parseEndpoint(url, false)).toBeString();
    });

  test("accepts https on ports 443 and 8443, with any path and query", () => {
    for (const url of [
      "https://example.com",
      "https://example.com:443/a?b=c",
      "https://hooks.example.co.uk:8443/x",
      "https://bücher.example/hook",
      "HTTPS://EXAMPLE.COM/",
    ])
      expect(parseEndpoint(url, false)).toMatchObject({ isLoopback: false });
  });

  test("accepts loopback URLs in development only", () => {
    for (const url of [
      "http://127.0.0.1:3000/hook",
      "http://localhost:3000/",
      "http://[::1]:3000/",
      "https://localhost/",
    ]) {
      expect(parseEndpoint(url, true)).toMatchObject({ isLoopback: true });
      expect(parseEndpoint(url, false)).toBeString();
    }
    for (const url of ["http://10.0.0.1/", "http://example.com/", "http://169.254.169.254/"])
      expect(parseEndpoint(url, true)).toBeString();
  });
});

describe("isPublicAddress", () => {
  test("is false for private and special addresses", () => {
    expect(PRIVATE_ADDRESSES.filter(isPublicAddress)).toEqual([]);
  });

  test("is true for public addresses", () => {
    expect(PUBLIC_ADDRESSES.filter((address) => !isPublicAddress(address))).toEqual([]);
  });
});

describe("resolveAllowedAddresses", () => {
  const endpoint = endpointOf("https://hook.example/");

  test("returns undefined if any address is not public", async () => {
    for (const address of PRIVATE_ADDRESSES)
      for (const list of [[address], ["1.1.1.1", address], [address, "1.1.1.1"]])
        expect(await resolveAllowedAddresses(endpoint, async () => list)).toBeUndefined();
    expect(await resolveAllowedAddresses(endpoint, async () => [])).toBeUndefined();
    expect(
      await resolveAllowedAddresses(endpoint, () => Promise.reject(new Error("ENOTFOUND"))),
    ).toBeUndefined();
  });

  test("returns at most three addresses, IPv4 first", async () => {
    const found = await resolveAllowedAddresses(endpoint, async () =>
      PUBLIC_ADDRESSES.toReversed(),
    );
    expect(found).toEqual(["223.255.255.255", "192.167.255.255", "172.32.0.0"]);
  });

  test("allows only loopback addresses for localhost", async () => {
    const localhost = endpointOf("http://localhost:9/");
    expect(await resolveAllowedAddresses(localhost, async () => ["127.0.0.1", "::1"])).toEqual([
      "127.0.0.1",
      "::1",
    ]);
    expect(
      await resolveAllowedAddresses(localhost, async () => ["127.0.0.1", "10.0.0.1"]),
    ).toBeUndefined();
    expect(await resolveAllowedAddresses(localhost, async () => ["1.1.1.1"])).toBeUndefined();
  });
});

describe("send", () => {
  test("connects to the checked address, with the name in TLS and in Host", async () => {
    const hello = Promise.withResolvers<string>();
    const server = createServer((socket) => {
      socket.on("error", () => {});
      socket.once("data", (bytes) => {
        hello.resolve(bytes.toString("latin1"));
        socket.destroy();
      });
    });
    await new Promise<void>((resolve) => {
      server.listen(0, "127.0.0.1", () => resolve());
    });
    const address = server.address();
    const port = typeof address === "object" ? address?.port : 0;
    const sent = await sendTo(
      { url: new URL(`https://hook.example:${port}/`), isLoopback: true },
      async () => ["127.0.0.1"],
    );
    expect(await hello.promise).toContain("hook.example");
    expect(sent.status).toBeNull();
    server.close();

    const receiver = startReceiver();
    const url = new URL(receiver.url.replace("127.0.0.1", "hook.example"));
    await sendTo({ url, isLoopback: true }, async () => ["127.0.0.1"]);
    expect(receiver.received[0]?.headers.get("host")).toBe(url.host);
    await receiver.close();
  });

  test("resolves the name at every attempt, so DNS rebinding does not help", async () => {
    const store = await openStore("sqlite");
    const receiver = startReceiver();
    const harness = await createHarness(store.db, false);
    const { id } = await harness.createWebhook("https://rebinds.example:8443/");
    const resolved: string[] = [];
    const answers = [["127.0.0.1"], ["169.254.169.254"], ["1.1.1.1", "127.0.0.1"], ["::1"]];
    const resolve = async (name: string): Promise<readonly string[]> => {
      resolved.push(name);
      return answers[resolved.length - 1] ?? [];
    };
    await harness.call("alice", "POST", `/v1/webhooks/${id}/test`);
    for (let round = 0; round < 4; round++) {
      await harness.deliver(harness.newWorker({ resolve }));
      harness.clock.now += 1_800_000;
    }
    const [delivery] = await harness.log(id);
    expect(resolved).toEqual(Array(4).fill("rebinds.example"));
    expect(delivery?.attempts.map(({ error }) => error)).toEqual(
      Array(4).fill("the host name does not resolve to public addresses only"),
    );
    expect(receiver.received).toEqual([]);
    await receiver.close();
    await store.close();
  });

  test("resolves the name once per request, so check and use see the same addresses", async () => {
    let lookups = 0;
    const resolve = async (): Promise<readonly string[]> => {
      lookups += 1;
      return lookups === 1 ? ["192.0.2.1"] : ["127.0.0.1"];
    };
    await sendTo(endpointOf("https://hook.example/"), resolve, 300);
    expect(lookups).toBe(1);
  });

  test("times out if the resolver does not answer", async () => {
    const sent = await sendTo(
      endpointOf("https://hook.example/"),
      () => new Promise<never>(() => {}),
      300,
    );
    expect(sent.error).toBe("no response within 0.3 seconds");
  });

  test("does not reveal whether a name exists in the gateway's network", async () => {
    const unknown = await sendTo(endpointOf("https://db.example/"), async () => []);
    const inside = await sendTo(endpointOf("https://db.example/"), async () => ["10.1.2.3"]);
    expect(inside).toEqual(unknown);
    expect(JSON.stringify(inside)).not.toContain("10.1.2.3");
  });

  test("does not call a loopback webhook created in development once in production", async () => {
    const store = await openStore("sqlite");
    const receiver = startReceiver();
    const { id } = await (await createHarness(store.db, true)).createWebhook(receiver.url);
    await store.db.write(async (tx) => {
      for (const table of ["wallet", "api_key", "spender"]) await tx.run(`delete from ${table}`);
    });
    const harness = await createHarness(store.db, false);
    await harness.call("alice", "POST", `/v1/webhooks/${id}/test`);
    await harness.deliver();
    expect((await harness.log(id))[0]?.attempts[0]?.error).toBe("the URL must begin with https://");
    expect(receiver.received).toEqual([]);
    await receiver.close();
    await store.close();
  });
});

function endpointOf(url: string): PublicEndpoint {
  const endpoint = parseEndpoint(url, true);
  if (typeof endpoint === "string") throw new Error(endpoint);
  return endpoint;
}

function sendTo(
  endpoint: PublicEndpoint,
  resolve: (name: string) => Promise<readonly string[]>,
  timeoutMs = 60_000,
): Promise<SendResult> {
  const signal = new AbortController().signal;
  return send({
    endpoint,
    headers: {},
    body: "{}",
    timeoutMs,
    responseMaxBytes: 1_024,
    resolve,
    signal,
  });
}
