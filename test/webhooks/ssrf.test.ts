import { describe, expect, test } from "bun:test";
import { createServer } from "node:net";
import {
  resolveAllowedAddresses,
  type Endpoint,
  parseEndpoint,
} from "../../src/webhooks/endpoint.ts";
import { isPublicAddress } from "../../src/webhooks/public-address.ts";
import { send, type SendResult } from "../../src/webhooks/send.ts";
import { openStore } from "../support/stores/stores.ts";
import { startReceiver } from "./webhook-receiver.ts";
import { createHarness } from "./harness.ts";

const HOSTILE_URLS: readonly (readonly [what: string, url: string])[] = [
  ["no TLS", "http://example.com/"],
  ["another protocol", "ftp://example.com/"],
  ["a file", "file:///etc/passwd"],
  ["a script", "javascript:alert(1)"],
  ["data", "data:text/plain,hello"],
  ["gopher", "gopher://example.com:70/_GET"],
  ["no protocol", "example.com/hook"],
  ["nothing", " "],
  ["a port of SSH", "https://example.com:22/"],
  ["a port of a database", "https://example.com:5432/"],
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
  ["loopback, in circles", "https://①②⑦.⓪.⓪.①/"],
  ["loopback, ideographic stops", "https://127。0。0。1/"],
  ["loopback, a stop at the end", "https://127.0.0.1./"],
  ["another loopback", "https://127.255.255.254/"],
  ["this host", "https://0.0.0.0/"],
  ["this host, short", "https://0/"],
  ["loopback of IPv6", "https://[::1]/"],
  ["loopback of IPv6, long", "https://[0:0:0:0:0:0:0:1]/"],
  ["unspecified of IPv6", "https://[::]/"],
  ["mapped loopback", "https://[::ffff:127.0.0.1]/"],
  ["mapped loopback, hexadecimal", "https://[::ffff:7f00:1]/"],
  ["translated loopback", "https://[64:ff9b::127.0.0.1]/"],
  ["a private address", "https://10.0.0.1/"],
  ["a private address of a home", "https://192.168.1.1/"],
  ["a private address of a container", "https://172.17.0.1/"],
  ["the metadata of a cloud", "https://169.254.169.254/latest/meta-data/"],
  ["the metadata of a cloud, as one number", "https://2852039166/"],
  ["the metadata of a cloud by IPv6", "https://[fd00:ec2::254]/"],
  ["a public address, which no name vouches for", "https://1.1.1.1/"],
  ["a public address of IPv6", "https://[2606:4700:4700::1111]/"],
  ["localhost", "https://localhost/"],
  ["LOCALHOST with a stop", "https://LOCALHOST./"],
  ["a name below localhost", "https://a.localhost/"],
  ["a bare name", "https://metadata/"],
  ["the metadata of a cloud by name", "https://metadata.google.internal/"],
  ["a name of the local network", "https://printer.local/"],
  ["a name of a home network", "https://router.home.arpa/"],
  ["too long a path", `https://example.com/${"a".repeat(2_048)}`],
];

const HOSTILE_ADDRESSES = [
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

describe("the address of a webhook", () => {
  for (const [what, url] of HOSTILE_URLS)
    test(`is refused: ${what}`, () => {
      expect(parseEndpoint(url, false)).toBeString();
    });

  test("may be https on 443 and 8443, with any path and query", () => {
    for (const url of [
      "https://example.com",
      "https://example.com:443/a?b=c",
      "https://hooks.example.co.uk:8443/x",
      "https://bücher.example/hook",
      "HTTPS://EXAMPLE.COM/",
    ])
      expect(parseEndpoint(url, false)).toMatchObject({ isLoopback: false });
  });

  test("may be this machine in development only", () => {
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

describe("the addresses that a name resolves to", () => {
  test("are not public", () => {
    expect(HOSTILE_ADDRESSES.filter(isPublicAddress)).toEqual([]);
  });

  test("are public", () => {
    expect(PUBLIC_ADDRESSES.filter((address) => !isPublicAddress(address))).toEqual([]);
  });

  const endpoint = endpointOf("https://hook.example/");

  test("spoil the name if one of them is not public, wherever it stands", async () => {
    for (const address of HOSTILE_ADDRESSES)
      for (const list of [[address], ["1.1.1.1", address], [address, "1.1.1.1"]])
        expect(await resolveAllowedAddresses(endpoint, async () => list)).toBeUndefined();
    expect(await resolveAllowedAddresses(endpoint, async () => [])).toBeUndefined();
    expect(
      await resolveAllowedAddresses(endpoint, () => Promise.reject(new Error("ENOTFOUND"))),
    ).toBeUndefined();
  });

  test("are tried IPv4 first, and three at most", async () => {
    const found = await resolveAllowedAddresses(endpoint, async () =>
      PUBLIC_ADDRESSES.toReversed(),
    );
    expect(found).toEqual(["223.255.255.255", "192.167.255.255", "172.32.0.0"]);
  });

  test("are loopback for localhost, and nothing else", async () => {
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

describe("the connection", () => {
  test("goes to the address that was checked, with the name in TLS and in Host", async () => {
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

  test("is not made where the name means something else by then: nothing is cached", async () => {
    const store = await openStore("sqlite");
    const receiver = startReceiver();
    const world = await createHarness(store.db, false);
    const { id } = await world.createWebhook("https://rebinds.example:8443/");
    const asked: string[] = [];
    // Public while somebody looks, ours when it counts.
    const answers = [["127.0.0.1"], ["169.254.169.254"], ["1.1.1.1", "127.0.0.1"], ["::1"]];
    const resolve = async (name: string): Promise<readonly string[]> => {
      asked.push(name);
      return answers[asked.length - 1] ?? [];
    };
    await world.call("alice", "POST", `/v1/webhooks/${id}/test`);
    for (let round = 0; round < 4; round++) {
      await world.deliver(world.newWorker({ resolve }));
      world.clock.now += 1_800_000;
    }
    const [delivery] = await world.log(id);
    expect(asked).toEqual(Array(4).fill("rebinds.example"));
    expect(delivery?.attempts.map(({ error }) => error)).toEqual(
      Array(4).fill("the name does not resolve to public addresses, and to nothing else"),
    );
    expect(receiver.received).toEqual([]);
    await receiver.close();
    await store.close();
  });

  test("asks the resolver once for a call, so that there is nothing to win between check and use", async () => {
    let asked = 0;
    await sendTo(endpointOf("https://hook.example/"), async () => {
      asked += 1;
      return asked === 1 ? ["192.0.2.1"] : ["127.0.0.1"];
    });
    expect(asked).toBe(1);
  });

  test("does not wait for a resolver that never answers", async () => {
    const sent = await sendTo(
      endpointOf("https://hook.example/"),
      () => new Promise<never>(() => {}),
    );
    expect(sent.error).toBe("no answer within 0.3 seconds");
  });

  test("tells nothing of the network that the gateway stands in", async () => {
    const unknown = await sendTo(endpointOf("https://db.example/"), async () => []);
    const inside = await sendTo(endpointOf("https://db.example/"), async () => ["10.1.2.3"]);
    expect(inside).toEqual(unknown);
    expect(JSON.stringify(inside)).not.toContain("10.1.2.3");
  });

  test("is not made to this machine for a webhook that was set up in development", async () => {
    const store = await openStore("sqlite");
    const receiver = startReceiver();
    const { id } = await (await createHarness(store.db, true)).createWebhook(receiver.url);
    await store.db.write((tx) => tx.run("delete from wallet"));
    const world = await createHarness(store.db, false);
    await world.call("alice", "POST", `/v1/webhooks/${id}/test`);
    await world.deliver();
    expect((await world.log(id))[0]?.attempts[0]?.error).toBe(
      "the address must begin with https://",
    );
    expect(receiver.received).toEqual([]);
    await receiver.close();
    await store.close();
  });
});

function endpointOf(url: string): Endpoint {
  const endpoint = parseEndpoint(url, true);
  if (typeof endpoint === "string") throw new Error(endpoint);
  return endpoint;
}

function sendTo(
  endpoint: Endpoint,
  resolve: (name: string) => Promise<readonly string[]>,
): Promise<SendResult> {
  const signal = new AbortController().signal;
  return send({ endpoint, headers: {}, body: "{}", timeoutMs: 300, resolve, signal });
}
