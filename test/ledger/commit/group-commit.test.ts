import { describe, expect, test } from "bun:test";
import { Fault } from "../../../src/base/fault.ts";
import { createGroupCommit } from "../../../src/ledger/commit/group-commit.ts";
import { LOCKED, UNAVAILABLE } from "../../../src/store/db.ts";
import { eventually } from "../../support/eventually.ts";

const unavailable = (): Error => Object.assign(new Error("gone"), { [UNAVAILABLE]: true });
const locked = (): Error => Object.assign(unavailable(), { [LOCKED]: true });
const numbers = (count: number): number[] => Array.from({ length: count }, (_, index) => index);

describe("group commit", () => {
  test("operations of one tick share a commit, and each gets its own outcome", async () => {
    const sizes: number[] = [];
    const group = createGroupCommit<number, string>(async (operations) => {
      sizes.push(operations.length);
      return operations.map((one) => `did ${one}`);
    });
    expect(await Promise.all(numbers(100).map((one) => group.submit(one, "new")))).toEqual(
      numbers(100).map((one) => `did ${one}`),
    );
    expect(sizes).toEqual([100]);
    expect(group.queueDepth()).toBe(0);
    await group.idle();
  });

  test("after an outage the store counts as failing until a new operation succeeds, not when a release does", async () => {
    let isFull = true;
    const group = createGroupCommit<string, string>(
      async (operations) => {
        if (isFull && operations.includes("hold")) throw unavailable();
        return operations;
      },
      1,
      { compensationFor: (operation) => (operation === "hold" ? "release" : undefined) },
    );
    const refused = await group.submit("hold", "new").catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(Fault);
    await group.submit("release", "owed");
    await group.idle();
    expect(group.isFailing()).toBe(true);
    isFull = false;
    await group.submit("hold", "new");
    await group.idle();
    expect(group.isFailing()).toBe(false);
  });

  test("operations submitted during a commit wait for the next one, in order and in bounded batches", async () => {
    const batches: number[][] = [];
    const gate = Promise.withResolvers<void>();
    const group = createGroupCommit<number, number>(async (operations) => {
      batches.push([...operations]);
      await gate.promise;
      return operations;
    });
    const first = group.submit(-1, "new");
    await eventually(() => batches.length === 1);
    const rest = numbers(1_700).map((one) => group.submit(one, "new"));
    gate.resolve();
    await Promise.all([first, ...rest]);
    expect(Math.max(...batches.map((batch) => batch.length))).toBeLessThanOrEqual(500);
    expect(batches.flat()).toEqual([-1, ...numbers(1_700)]);
  });

  test("a queue that grows from tick to tick shares a commit for up to three ticks; a single operation does not wait", async () => {
    const nextTick = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
    const sizesOf = async (arriving: readonly number[], tickMs = 0): Promise<readonly number[]> => {
      const sizes: number[] = [];
      let now = 0;
      const commit = async (operations: readonly number[]): Promise<readonly number[]> => {
        sizes.push(operations.length);
        return operations;
      };
      const group = createGroupCommit<number, number>(commit, 1, { monotonicNow: () => now });
      for (const count of arriving) {
        for (const one of numbers(count)) void group.submit(one, "new");
        await nextTick();
        now += tickMs;
      }
      await group.idle();
      return sizes;
    };
    expect(await sizesOf([1, 1])).toEqual([1, 1]);
    expect(await sizesOf([2, 0, 1])).toEqual([2, 1]);
    expect(await sizesOf([2, 1, 0, 1])).toEqual([3, 1]);
    const [first = 0, ...others] = await sizesOf([2, 1, 1, 1, 1, 1, 1, 1]);
    expect(first).toBeGreaterThanOrEqual(4);
    expect(first).toBeLessThanOrEqual(6);
    expect(others.length).toBeGreaterThan(0);
    // The ticks of a busy process are long: their operations do not wait for more.
    const [firstOfLong = 0] = await sizesOf([2, 1, 1, 1, 1, 1, 1, 1], 10);
    expect(firstOfLong).toBeLessThan(4);
  });

  test("after a commit of several operations the next one waits as long as it took, at most 10 ms", async () => {
    const pausesAfter = async (
      operations: number,
      commitMs: number,
    ): Promise<readonly number[]> => {
      const pauses: number[] = [];
      let now = 0;
      const group = createGroupCommit<number, number>(
        async (committed) => {
          now += commitMs;
          return committed;
        },
        1,
        {
          monotonicNow: () => now,
          pauseAfterCommit: async (ms) => {
            pauses.push(ms);
            void group.submit(operations, "new");
          },
        },
      );
      await Promise.all(numbers(operations).map((one) => group.submit(one, "new")));
      await group.idle();
      return pauses;
    };
    expect(await pausesAfter(4, 8)).toEqual([8]);
    expect(await pausesAfter(40, 300)).toEqual([10]);
    expect(await pausesAfter(3, 8)).toEqual([]);
  });

  test("an operation that cannot be written fails alone, and the others keep their order", async () => {
    const written: number[] = [];
    let commits = 0;
    const group = createGroupCommit<number, number>(async (operations) => {
      commits += 1;
      if (operations.includes(137)) throw new Error("poison");
      written.push(...operations);
      return operations;
    });
    const outcomes = await Promise.allSettled(numbers(400).map((one) => group.submit(one, "new")));
    expect(outcomes.flatMap((one, index) => (one.status === "rejected" ? [index] : []))).toEqual([
      137,
    ]);
    expect(written).toEqual(numbers(400).filter((one) => one !== 137));
    expect(commits).toBeLessThan(25);
  });

  test("retries the whole batch while the store is briefly unavailable", async () => {
    const sizes: number[] = [];
    const group = createGroupCommit<number, number>(async (operations) => {
      sizes.push(operations.length);
      if (sizes.length < 3) throw unavailable();
      return operations;
    });
    await Promise.all(numbers(64).map((one) => group.submit(one, "new")));
    expect(sizes).toEqual([64, 64, 64]);
  });

  test("owed work is kept while the store is unavailable for minutes", async () => {
    let [attempts, now] = [0, 0];
    const group = createGroupCommit<string, string>(
      async (operations) => {
        attempts += 1;
        // At most 100 pauses of an attempt count: 40 attempts are two minutes with the pause of production.
        now += 100;
        if (attempts <= 40) throw unavailable();
        return operations;
      },
      1,
      { monotonicNow: () => now },
    );
    expect(await group.submit("settle", "owed")).toBe("settle");
  });

  describe("with a deferral", () => {
    const deferring = (
      commit: (operations: readonly string[]) => Promise<readonly string[]>,
      pauseMs: number,
    ) => {
      const settled: string[] = [];
      const lost: string[] = [];
      const group = createGroupCommit<string, string>(commit, pauseMs, {
        deferral: {
          afterMs: 20,
          outcome: "deferred",
          operationFor: (operation) => operation.replace("unsent", "free"),
          onCommitted: (operation, outcome) => settled.push(`${operation}: ${outcome}`),
          onLost: (operation) => lost.push(operation),
        },
      });
      return { group, settled, lost };
    };

    test("owed work of an unavailable store is committed later, without its caller", async () => {
      let isAway = true;
      const { group, settled } = deferring(async (operations) => {
        if (isAway) throw unavailable();
        return operations.map((one) => `did ${one}`);
      }, 1);
      const waiting = ["sent", "unsent"].map((one) => group.submit(one, "owed"));
      expect(await Promise.all(waiting)).toEqual(["deferred", "deferred"]);
      isAway = false;
      await group.idle();
      expect(settled).toEqual(["sent: did sent", "free: did free"]);
    });

    test("a commit that hangs is not waited for, and an operation that it may contain is not replaced", async () => {
      const hanging = Promise.withResolvers<void>();
      const { group, settled } = deferring(async (operations) => {
        await hanging.promise;
        return operations.map((one) => `did ${one}`);
      }, 1);
      const unsent = group.submit("unsent", "owed");
      expect(await group.submit("sent", "owed")).toBe("deferred");
      hanging.resolve();
      expect(await unsent).toBe("did unsent");
      expect(settled).toEqual(["sent: did sent"]);
    });

    test("owed work on locked rows is committed later, or reported as lost", async () => {
      let fails: "locked" | "broken" | undefined = "locked";
      const { group, settled, lost } = deferring(async (operations) => {
        if (fails === "locked") throw locked();
        if (fails === "broken") throw new Error("broken");
        return operations;
      }, 0.2);
      expect(await group.submit("sent", "owed")).toBe("deferred");
      fails = undefined;
      await group.idle();
      expect(settled).toEqual(["sent: sent"]);
      fails = "locked";
      expect(await group.submit("unsent", "owed")).toBe("deferred");
      fails = "broken";
      await group.idle();
      expect(lost).toEqual(["free"]);
    });
  });

  test("rejects a batch as overloaded after a limited time", async () => {
    const group = createGroupCommit<number, number>(async () => {
      throw unavailable();
    }, 0.01);
    const outcomes = await Promise.allSettled(numbers(300).map((one) => group.submit(one, "owed")));
    for (const one of outcomes)
      expect(one.status === "rejected" && one.reason instanceof Fault ? one.reason.code : "").toBe(
        "overloaded",
      );
  });

  test("attempts that take long do not add up: new work is rejected after the second", async () => {
    let commits = 0;
    const group = createGroupCommit<number, number>(
      async () => {
        commits += 1;
        throw unavailable();
      },
      1,
      { monotonicNow: () => commits * 40 },
    );
    const rejected = await group.submit(1, "new").catch((error: unknown) => error);
    expect(rejected).toBeInstanceOf(Fault);
    expect(commits).toBe(2);
  });

  test("a suspension of the process does not count as retries of owed work", async () => {
    let [commits, now] = [0, 0];
    const group = createGroupCommit<number, number>(
      async (operations) => {
        commits += 1;
        now += 60_000;
        if (commits <= 5) throw unavailable();
        return operations;
      },
      1,
      { monotonicNow: () => now },
    );
    expect(await group.submit(1, "owed")).toBe(1);
  });

  test("does not repeat operations with an outcome if the store fails while a batch is split", async () => {
    const written: number[] = [];
    let failures = 2;
    const group = createGroupCommit<number, number>(async (operations) => {
      if (operations.includes(5)) throw new Error("poison");
      if (operations.includes(6) && failures-- > 0) throw unavailable();
      written.push(...operations);
      return operations;
    });
    const outcomes = await Promise.allSettled(numbers(16).map((one) => group.submit(one, "new")));
    expect(outcomes.filter((one) => one.status === "rejected")).toHaveLength(1);
    expect(written).toEqual(numbers(16).filter((one) => one !== 5));
  });

  test("rejects new work while the store is unavailable, and completes owed work when it is back", async () => {
    const done: number[] = [];
    let commits = 0;
    const group = createGroupCommit<number, number>(async (operations) => {
      commits += 1;
      if (commits <= 20) throw unavailable();
      done.push(...operations);
      return operations;
    }, 1);
    const owed = [1, 2, 3].map((one) => group.submit(one, "owed"));
    const early = await Promise.allSettled([4, 5].map((one) => group.submit(one, "new")));
    expect(early.map((one) => one.status)).toEqual(["rejected", "rejected"]);
    const late = await Promise.allSettled([group.submit(6, "new")]);
    expect(late[0].status).toBe("rejected");
    const more = group.submit(7, "owed");
    expect(await Promise.all([...owed, more])).toEqual([1, 2, 3, 7]);
    expect(done).toEqual([1, 2, 3, 7]);
    expect(await group.submit(8, "new")).toBe(8);
  });

  test("a full queue rejects new work with `retry-after` and admits owed work", async () => {
    const gate = Promise.withResolvers<void>();
    const group = createGroupCommit<number, number>(async (operations) => {
      await gate.promise;
      return operations;
    });
    const admitted = numbers(20_000).map((one) => group.submit(one, "new"));
    const rejected = await group.submit(-1, "new").catch((error: unknown) => error);
    expect(
      rejected instanceof Fault ? [rejected.code, rejected.options.retryAfterSeconds] : rejected,
    ).toEqual(["overloaded", 1]);
    const owed = group.submit(-2, "owed");
    gate.resolve();
    expect(await owed).toBe(-2);
    await Promise.all(admitted);
  });

  test("locked rows delay only their own operations: new work is rejected, owed work is retried", async () => {
    let isLocked = true;
    const batches: number[][] = [];
    const hadLongTimeout: boolean[] = [];
    const group = createGroupCommit<number, number>(
      async (operations, hasShortLockTimeout) => {
        batches.push([...operations]);
        if (operations.some((one) => one < 0)) hadLongTimeout.push(!hasShortLockTimeout);
        if (isLocked && operations.some((one) => one < 0)) throw locked();
        return operations;
      },
      0.2,
      { lockKeyOf: (one) => (one < 0 ? "locked" : `${one}`) },
    );
    const owed = [-1, -2].map((one) => group.submit(one, "owed"));
    const newWork = group.submit(-3, "new").catch((error: unknown) => error);
    const others = numbers(61).map((one) => group.submit(one, "new"));
    expect(await Promise.all(others)).toEqual(numbers(61));
    const rejected = await newWork;
    expect(
      rejected instanceof Fault ? [rejected.code, rejected.options.retryAfterSeconds] : rejected,
    ).toEqual(["overloaded", 1]);
    // The batch is split down to one operation; the others with the same lock key are deferred untried.
    expect(batches.length).toBeLessThan(16);
    expect(group.queueDepth()).toBe(2);
    expect(await group.submit(7, "new")).toBe(7);
    const attempted = batches.length;
    const retries = (): readonly number[][] =>
      batches.slice(attempted).filter((batch) => batch.some((one) => one < 0));
    await eventually(() => retries().length >= 2);
    // Each retry is alone in its batch, so that no other operation waits for locked rows.
    expect(retries().filter((batch) => batch.length > 1)).toEqual([]);
    // Only the first attempt has the long lock timeout, not the halves of the batch and the retries.
    expect(hadLongTimeout.filter(Boolean)).toHaveLength(1);
    isLocked = false;
    expect(await Promise.all(owed)).toEqual([-1, -2]);
    await group.idle();
    expect(group.queueDepth()).toBe(0);
    expect(await group.submit(-4, "new")).toBe(-4);
  });

  test("compensates an operation of unknown outcome if its rows are locked at the retry", async () => {
    const errors = [unavailable(), locked()];
    const done: number[] = [];
    const group = createGroupCommit<number, number>(
      async (operations) => {
        const error = errors.shift();
        if (error !== undefined) throw error;
        done.push(...operations);
        return operations;
      },
      0.1,
      { compensationFor: (one) => 100 + one },
    );
    expect(await group.submit(1, "new").catch((error: unknown) => error)).toBeInstanceOf(Fault);
    await group.idle();
    expect(done).toEqual([101]);
  });
});
