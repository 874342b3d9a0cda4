import { describe, expect, test } from "bun:test";
import { Fault } from "../../../src/base/fault.ts";
import { createGroupCommit } from "../../../src/ledger/commit/group-commit.ts";
import { LOCKED, UNAVAILABLE } from "../../../src/store/db.ts";

const unavailable = (): Error => Object.assign(new Error("gone"), { [UNAVAILABLE]: true });
const locked = (): Error => Object.assign(unavailable(), { [LOCKED]: true });
const numbers = (count: number): number[] => Array.from({ length: count }, (_, place) => place);

describe("group commit", () => {
  test("what is asked for in one turn is committed at once, and each gets its own outcome", async () => {
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

  test("what comes during a commit waits for the next, in order, in batches of a bounded size", async () => {
    const seen: number[][] = [];
    const group = createGroupCommit<number, number>(async (operations) => {
      seen.push([...operations]);
      await Bun.sleep(1);
      return operations;
    });
    const first = group.submit(-1, "new");
    await Bun.sleep(0);
    const rest = numbers(1_700).map((one) => group.submit(one, "new"));
    await Promise.all([first, ...rest]);
    expect(Math.max(...seen.map((batch) => batch.length))).toBeLessThanOrEqual(500);
    expect(seen.flat()).toEqual([-1, ...numbers(1_700)]);
  });

  test("a crowd that grows from turn to turn shares a commit, for three turns more, and one alone waits for none", async () => {
    const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
    const sizesOf = async (arriving: readonly number[]): Promise<readonly number[]> => {
      const sizes: number[] = [];
      const group = createGroupCommit<number, number>(async (operations) => {
        sizes.push(operations.length);
        return operations;
      });
      for (const count of arriving) {
        for (const one of numbers(count)) void group.submit(one, "new");
        await nextTurn();
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
  });

  test("one operation that cannot be written fails alone, and the others keep their order", async () => {
    const written: number[] = [];
    let commits = 0;
    const group = createGroupCommit<number, number>(async (operations) => {
      commits += 1;
      if (operations.includes(137)) throw new Error("poison");
      written.push(...operations);
      return operations;
    });
    const outcomes = await Promise.allSettled(numbers(400).map((one) => group.submit(one, "new")));
    expect(outcomes.flatMap((one, place) => (one.status === "rejected" ? [place] : []))).toEqual([
      137,
    ]);
    expect(written).toEqual(numbers(400).filter((one) => one !== 137));
    expect(commits).toBeLessThan(25);
  });

  test("a store that is away for a moment is waited for, without halving", async () => {
    const sizes: number[] = [];
    const group = createGroupCommit<number, number>(async (operations) => {
      sizes.push(operations.length);
      if (sizes.length < 3) throw unavailable();
      return operations;
    });
    await Promise.all(numbers(64).map((one) => group.submit(one, "new")));
    expect(sizes).toEqual([64, 64, 64]);
  });

  test("a store that stays away refuses the whole batch as overloaded, after a bounded number of attempts", async () => {
    let commits = 0;
    const group = createGroupCommit<number, number>(async () => {
      commits += 1;
      throw unavailable();
    }, 1);
    const outcomes = await Promise.allSettled(numbers(300).map((one) => group.submit(one, "owed")));
    for (const one of outcomes)
      expect(one.status === "rejected" && one.reason instanceof Fault ? one.reason.code : "").toBe(
        "overloaded",
      );
    expect(commits).toBeLessThan(100);
  });

  test("a store that goes away while a batch is halved repeats nothing that has its outcome", async () => {
    const written: number[] = [];
    let away = 2;
    const group = createGroupCommit<number, number>(async (operations) => {
      if (operations.includes(5)) throw new Error("poison");
      if (operations.includes(6) && away-- > 0) throw unavailable();
      written.push(...operations);
      return operations;
    });
    const outcomes = await Promise.allSettled(numbers(16).map((one) => group.submit(one, "new")));
    expect(outcomes.filter((one) => one.status === "rejected")).toHaveLength(1);
    expect(written).toEqual(numbers(16).filter((one) => one !== 5));
  });

  test("new work is refused while the store is away, and what is owed is done when it is back", async () => {
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

  test("a full queue refuses new calls with `retry-after`, and takes what ends a call", async () => {
    const gate = Promise.withResolvers<void>();
    const group = createGroupCommit<number, number>(async (operations) => {
      await gate.promise;
      return operations;
    });
    const taken = numbers(20_000).map((one) => group.submit(one, "new"));
    const refused = await group.submit(-1, "new").catch((error: unknown) => error);
    expect(
      refused instanceof Fault ? [refused.code, refused.options.retryAfterSeconds] : refused,
    ).toEqual(["overloaded", 1]);
    const owed = group.submit(-2, "owed");
    gate.resolve();
    expect(await owed).toBe(-2);
    await Promise.all(taken);
  });

  test("rows that somebody else keeps locked hold up nobody else: new work on them is refused, what is owed is done later", async () => {
    let isLocked = true;
    const tried: number[][] = [];
    const waited: boolean[] = [];
    const group = createGroupCommit<number, number>(
      async (operations, isHurried) => {
        tried.push([...operations]);
        if (operations.some((one) => one < 0)) waited.push(!isHurried);
        if (isLocked && operations.some((one) => one < 0)) throw locked();
        return operations;
      },
      0.2,
      { lockKeyOf: (one) => (one < 0 ? "locked" : `${one}`) },
    );
    const owed = [-1, -2].map((one) => group.submit(one, "owed"));
    const fresh = group.submit(-3, "new").catch((error: unknown) => error);
    const others = numbers(61).map((one) => group.submit(one, "new"));
    expect(await Promise.all(others)).toEqual(numbers(61));
    const refused = await fresh;
    expect(
      refused instanceof Fault ? [refused.code, refused.options.retryAfterSeconds] : refused,
    ).toEqual(["overloaded", 1]);
    // Halves, down to the one alone; the others of its lane are not tried after it.
    expect(tried.length).toBeLessThan(16);
    expect(group.queueDepth()).toBe(2);
    expect(await group.submit(7, "new")).toBe(7);
    await Bun.sleep(50);
    // Whoever tries them again is alone, so that nobody waits for locked rows with them.
    const later = tried.slice(20).filter((batch) => batch.some((one) => one < 0));
    expect(later.filter((batch) => batch.length > 1)).toEqual([]);
    // They are waited for once, and neither by each half of the batch nor by whoever tries again.
    expect(waited.filter((patiently) => patiently)).toHaveLength(1);
    isLocked = false;
    expect(await Promise.all(owed)).toEqual([-1, -2]);
    await group.idle();
    expect(group.queueDepth()).toBe(0);
    expect(await group.submit(-4, "new")).toBe(-4);
  });

  test("what was tried and not heard of is taken back where its rows are locked by then", async () => {
    const weather = [unavailable(), locked()];
    const done: number[] = [];
    const group = createGroupCommit<number, number>(
      async (operations) => {
        const error = weather.shift();
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
