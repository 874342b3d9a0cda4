// One address has one spelling, whichever of its spellings arrives.

import { describe, expect, test } from "bun:test";
import {
  canonicalIp,
  createClientIpResolver,
  networksOf,
  prefixOf,
} from "../../src/http/request/client-ip.ts";

const direct = createClientIpResolver([]);
const behindProxy = createClientIpResolver(["10.0.0.0/8"]);

const SPELLINGS: readonly (readonly [address: string, spellings: readonly string[]])[] = [
  [
    "1.2.3.4",
    [
      "1.2.3.4",
      "1.2.3.4:5678",
      "::ffff:1.2.3.4",
      "::FFFF:1.2.3.4",
      "::ffff:102:304",
      "::ffff:0102:0304",
      "0:0:0:0:0:ffff:1.2.3.4",
      "0000:0000:0000:0000:0000:FFFF:0102:0304",
      "::0:ffff:1.2.3.4",
      "[::ffff:1.2.3.4]:5678",
      "[::ffff:102:304]",
      "::ffff:1.2.3.4%eth0",
    ],
  ],
  [
    "2001:db8::1",
    [
      "2001:db8::1",
      "2001:DB8::1",
      "2001:0db8:0000:0000:0000:0000:0000:0001",
      "2001:db8:0:0:0:0:0:1",
      "2001:db8::0:1",
      "2001:db8::0.0.0.1",
      "[2001:DB8::1]:443",
      "2001:db8::1%2",
    ],
  ],
  ["fe80::1", ["fe80::1", "FE80::1%eth0", "[fe80::1%25eth0]:80", "fe80:0:0:0::1%1"]],
  ["64:ff9b::102:304", ["64:ff9b::1.2.3.4", "64:ff9b::102:304", "64:FF9B:0:0:0:0:1.2.3.4"]],
  ["::1", ["::1", "0:0:0:0:0:0:0:1", "::0.0.0.1"]],
];

describe("the client's address", () => {
  for (const [address, spellings] of SPELLINGS)
    test.each([...spellings])(`is ${address} for %s`, (spelling) => {
      expect(direct(spelling, null)).toBe(address);
      expect(behindProxy("::ffff:10.0.0.1", spelling)).toBe(address);
    });

  test.each(["::ffff:10.1.2.3", "::ffff:a01:203", "0:0:0:0:0:FFFF:10.1.2.3", "10.1.2.3:80"])(
    "is the forwarded one if %s is a trusted proxy",
    (proxy) => {
      expect(behindProxy(proxy, "6.7.8.9, 1.2.3.4")).toBe("1.2.3.4");
      expect(createClientIpResolver(["::ffff:10.0.0.0/104"])(proxy, "1.2.3.4")).toBe("1.2.3.4");
    },
  );

  test.each(["unknown", "", "1.2.3", "01.2.3.4", "::ffff:1.2.3", "1.2.3.4.5", "::ffff:01.2.3.4"])(
    "is the proxy's if %p was forwarded",
    (forwarded) => {
      expect(behindProxy("10.0.0.1", forwarded)).toBe("10.0.0.1");
    },
  );
});

describe("networks", () => {
  test.each([
    ["1.2.3.4", ["1.2.3.4/32", "1.2.3.0/24"]],
    ["2001:db8:1:2::3", ["2001:db8:1:2::/64", "2001:db8:1::/48"]],
    ["2001:db8:1:2::3%eth0", ["2001:db8:1:2::/64", "2001:db8:1::/48"]],
    ["2001:DB8:0001:2:0:0:0:3", ["2001:db8:1:2::/64", "2001:db8:1::/48"]],
    ["64:ff9b::1.2.3.4", ["64:ff9b:0:0::/64", "64:ff9b:0::/48"]],
    ["64:ff9b::102:304", ["64:ff9b:0:0::/64", "64:ff9b:0::/48"]],
    ["::1.2.3.4", ["0:0:0:0::/64", "0:0:0::/48"]],
    ["nonsense", ["unknown", "unknown/wide"]],
  ] as const)("of %s are %p", (address, networks) => {
    expect(networksOf(address)).toEqual([...networks]);
  });

  test("of the last groups contain the embedded IPv4 address", () => {
    expect(prefixOf("64:ff9b::1.2.3.4", 128)).toBe("64:ff9b:0:0:0:0:102:304::/128");
    expect(prefixOf("64:ff9b::1.2.3.4", 104)).toBe("64:ff9b:0:0:0:0:100::/104");
  });
});

test("the expanded form is the same for both spellings of an embedded IPv4 address", () => {
  for (const spelling of ["64:ff9b::1.2.3.4", "64:FF9B::0102:0304"])
    expect(canonicalIp(spelling)).toBe("64:ff9b:0:0:0:0:102:304");
});
