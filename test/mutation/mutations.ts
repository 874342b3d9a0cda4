// Small changes to lines that guard money, secrets and promises. Each must fail a test: `npm run mutate` tries them all, and
// `mutations.test.ts` checks that each still matches the code.

export interface Mutation {
  /** What the changed code would do wrong. */
  readonly name: string;
  readonly file: string;
  /** Occurs once in the file. */
  readonly search: string;
  readonly replacement: string;
  /** Test files of which one must fail. */
  readonly tests: readonly string[];
}

/** The changed text; undefined if the search text does not occur exactly once. */
export function mutate(text: string, { search, replacement }: Mutation): string | undefined {
  const at = text.indexOf(search);
  if (at === -1 || text.includes(search, at + 1)) return undefined;
  return text.slice(0, at) + replacement + text.slice(at + search.length);
}

/** Mutations of one file that the same tests guard. */
function of(
  file: string,
  tests: readonly string[],
  changes: readonly (readonly [name: string, search: string, replacement: string])[],
): readonly Mutation[] {
  return changes.map(([name, search, replacement]) => ({
    name,
    file,
    search,
    replacement,
    tests: tests.map((test) => `${test.startsWith("packages/") ? "" : "test/"}${test}.test.ts`),
  }));
}

const MEDIA: readonly Mutation[] = [
  ...of(
    "src/models/price.ts",
    ["inference/lifecycle/relayed-endpoints"],
    [
      [
        "every image costs the highest price of its model",
        "? fieldOf(imageFees, imageClass)",
        "? undefined",
      ],
    ],
  ),
  ...of(
    "src/models/price-bound.ts",
    ["inference/lifecycle/relayed-endpoints"],
    [
      [
        "images are held at the highest price, whatever their size and quality",
        "feeOf(card, rates, meter, imageClass).unitPrice",
        "feeOf(card, rates, meter, undefined).unitPrice",
      ],
    ],
  ),
  ...of(
    "packages/wires/src/relayed/image-units.ts",
    ["inference/lifecycle/relayed-endpoints"],
    [
      [
        "the pixels of several images cost those of one",
        "(images * width * height)",
        "(width * height)",
      ],
    ],
  ),
  ...of(
    "packages/wires/src/relayed/images-endpoint.ts",
    ["inference/lifecycle/relayed-endpoints"],
    [
      ["an image without pixels is held at nothing", "pixels < 1", "pixels < 0"],
      [
        "a small image is held by its pixels alone",
        "Math.max(SQUARE_PIXELS, pixelsOf(size))",
        "pixelsOf(size)",
      ],
    ],
  ),
  ...of(
    "src/inference/lifecycle/reply/meter.ts",
    ["inference/metering/empty-other-replies"],
    [
      [
        "a reply without an image or a text is charged for its input",
        "if (plan.isEmpty?.(json) === true)",
        "if (Date.now() < 0)",
      ],
    ],
  ),
  ...of(
    "packages/wires/src/relayed/completions-endpoint.ts",
    ["inference/metering/empty-other-replies"],
    [
      [
        "a stream of a text completion that ends without a reason is charged",
        "endsIn: hasEnded,",
        "",
      ],
    ],
  ),
  ...of(
    "packages/wires/src/relayed/audio-containers.ts",
    ["packages/wires/test/relayed/audio-containers"],
    [
      [
        "a FLAC frame is as fast as it says, whatever the file says",
        "Math.min(ownRate || rate, rate || ownRate)",
        "rate || ownRate",
      ],
      [
        "an MP4 file plays once, whatever its edit list says",
        "totals.seconds.push(units / totals.movieScale);",
        "",
      ],
      [
        "fragments of an MP4 file have no frames",
        'else if (type === "trun") totals.frames += u32(4);',
        "",
      ],
      ["laced packets of WebM count as one", "if (lacing === 0)", "if (lacing >= 0)"],
      [
        "what follows broken bytes of a WebM file is not counted",
        "at = file.indexOf(CLUSTER_ID, at)",
        "at = -1",
      ],
    ],
  ),
  ...of(
    "packages/wires/src/relayed/audio-duration.ts",
    ["packages/wires/test/relayed/audio-containers"],
    [
      [
        "the first Vorbis stream of a file counts for all of them",
        "longest = Math.max(longest, 2 **",
        "longest ||= Math.max(longest, 2 **",
      ],
    ],
  ),
];

const BATCHES: readonly Mutation[] = [
  ...of(
    "src/inference/metering/charge.ts",
    ["batches/provider-batches"],
    [
      [
        "an item of a provider's batch is charged at list price",
        "    ...(bounds.isBatch === true && { serviceTier: BATCH_TIER }),\n",
        "",
      ],
    ],
  ),
  ...of(
    "src/inference/lifecycle/enforce-data-policy.ts",
    ["batches/provider-batches"],
    [
      [
        "an agreement on calls is applied to batches, which the provider stores",
        "const stored = { ...dataPolicyOf(model), retentionDays: null };",
        "const stored = dataPolicyOf(model, deps.dataPolicy.zdrProviders);",
      ],
    ],
  ),
  ...of(
    "src/batches/at-provider/submit.ts",
    ["batches/provider-batches"],
    [
      [
        "a submission whose reply was lost is repeated without a look at the provider",
        'await save(deps, job, { state: "sent", remoteId: found.id });',
        'await save(deps, job, { state: "planned" });',
      ],
    ],
  ),
  ...of(
    "src/batches/at-provider/settle-results.ts",
    ["batches/provider-batches"],
    [
      [
        "a batch at a provider has the prices of its end",
        "pricedAt: createdAt }",
        "pricedAt: deps.now() }",
      ],
      ["results without a custom id are free", "        unnamed.push(result);\n", ""],
    ],
  ),
  ...of(
    "src/inference/lifecycle/batch-target.ts",
    ["batches/provider-batches"],
    [
      [
        "an item of a provider's batch is charged more than its share",
        "{ candidate, share: batchItem.share }",
        "{ candidate, share: batchItem.share * 1000n }",
      ],
    ],
  ),
  ...of(
    "src/inference/lifecycle/reply/collect-whole-reply.ts",
    ["inference/lifecycle/collected-replies"],
    [
      [
        "a collected whole reply that timed out costs nothing",
        "failure === TIMED_OUT && collection.meter.outputBytes > 0",
        "Date.now() < 0",
      ],
    ],
  ),
  ...of(
    "src/http/reach.ts",
    ["keys/reach-of-keys"],
    [
      [
        "a key with a restriction reaches what other keys have made",
        'granted?.has("keys:manage") === true ? undefined : keyId',
        "granted === undefined ? keyId : undefined",
      ],
    ],
  ),
  ...of(
    "src/batches/finish-batch.ts",
    ["responses/queued-responses"],
    [
      [
        "a queued response whose call failed stays queued",
        "  await deps.endResponse(tx, { id: responseId, accountId, status, message });\n",
        "",
      ],
    ],
  ),
  ...of(
    "src/responses/responses.ts",
    ["guardrails/guardrails"],
    [
      [
        "a stored conversation is sent unchecked to the model",
        "items: await checkPast(input, found.items)",
        "items: found.items",
      ],
    ],
  ),
];

const HOSTILE: readonly Mutation[] = [
  ...of(
    "src/batches/batch-runner.ts",
    ["responses/queued-attacks"],
    [
      [
        "an item that another process has ended is run again until its batch expires",
        "    if (!(await isOpen(deps, run, item, isFailure))) return;\n",
        "",
      ],
    ],
  ),
  ...of(
    "src/batches/create-batch.ts",
    ["responses/queued-attacks"],
    [
      [
        "a key creates responses that wait without limit",
        "const rateLimit = isResponse ?",
        "const rateLimit = !isResponse ?",
      ],
    ],
  ),
  ...of(
    "src/inference/lifecycle/batch-target.ts",
    ["responses/queued-attacks"],
    [
      [
        "a stopped session gets replies from batches of a provider",
        "isGuarded || isInSession ||",
        "isGuarded ||",
      ],
    ],
  ),
  ...of(
    "src/responses/background/queued-responses.ts",
    ["responses/queued-attacks"],
    [
      [
        "a response expires before its window ends, and is charged",
        "record.expiresAt + windowMs",
        "record.expiresAt",
      ],
    ],
  ),
  ...of(
    "src/responses/stored-call.ts",
    ["responses/queued-attacks"],
    [["canceled responses fill the store", "      onStored(accountId, bytes);\n", ""]],
  ),
  ...of(
    "src/batches/batch-runner.ts",
    ["batches/batches"],
    [
      [
        "a key that may make no calls runs the items of its batch",
        '    requireScope({ scope: "models:write" }, caller);\n',
        "",
      ],
    ],
  ),
  ...of(
    "src/batches/item-ends.ts",
    ["batches/batches"],
    [
      [
        "the hold of a batch shrinks twice for an item",
        "if (await endItem(tx, ended)) await shrinkBatchHold",
        "if (!(await endItem(tx, ended)) || true) await shrinkBatchHold",
      ],
    ],
  ),
  ...of(
    "src/batches/at-provider/settle-results.ts",
    ["batches/provider-batches"],
    [
      [
        "a result of another batch of the provider is taken",
        "  if (!customId.startsWith(prefix)) return undefined;\n",
        "",
      ],
    ],
  ),
  ...of(
    "src/batches/batches-routes.ts",
    ["batches/batch-limits"],
    [["a refused batch stays in the store", "    undo: batches.discard,\n", ""]],
  ),
  ...of(
    "src/mcp-servers/mcp-servers.ts",
    ["mcp-servers/mcp-servers"],
    [
      [
        "the secret headers of a server are sent to a new URL",
        "  if (former.url !== url)\n",
        "  if (former.url === undefined)\n",
      ],
    ],
  ),
  ...of(
    "src/inference/lifecycle/open-mcp-servers.ts",
    ["translation/tools/hostile-mcp-servers"],
    [
      [
        "free calls flood the servers of others",
        "  if (waitMs > 0) throw tooManyListsFault(waitMs);\n",
        "",
      ],
      [
        "a barred key reaches a connector",
        "  if (allowed !== undefined && hasUnreadServers(request, found)) throw unreadFault(allowed);\n",
        "",
      ],
    ],
  ),
  ...of(
    "src/inference/remote-mcp/mcp-client.ts",
    ["translation/tools/hostile-mcp-servers"],
    [
      [
        "a list of tools has no end",
        '    if (length > LIST_MAX_LENGTH) throw new Error("the list of tools is too long");\n',
        "",
      ],
    ],
  ),
];

const LEDGER: readonly Mutation[] = [
  ...of(
    "src/ledger/commit/batch.ts",
    ["ledger/ledger"],
    [
      [
        "a charge is committed without the write that could not be sent",
        "if (isSent) tx.sendCommit();",
        "tx.sendCommit();",
      ],
    ],
  ),
  ...of(
    "src/server/call-records.ts",
    ["inference/lifecycle/multiple-processes"],
    [
      [
        "the commit is sent before the reply of an idempotent call is stored",
        'name === "usage" || value',
        'name === "usage" || name === "idempotent" || value',
      ],
    ],
  ),
  ...of(
    "src/inference/lifecycle/hold/confirm-hold.ts",
    ["inference/lifecycle/lease"],
    [["a call on a lease asks for a row of its own", "id: hold.rowId ?? id,", "id,"]],
  ),
  ...of(
    "src/ledger/recall-leases.ts",
    ["server/recalled-leases"],
    [
      [
        "a recall does not wait until the processes have closed the leases",
        "  tx.afterCommit((reader) => waitUntilClosed(reader, accountId, ids));\n",
        "",
      ],
    ],
  ),
  ...of(
    "src/ledger/leased-ledger.ts",
    ["ledger/credit-leases"],
    [
      [
        "a hold is shortened by what another process has leased",
        "submitHold({ ...request, refuseShortened: true })",
        "submitHold(request)",
      ],
      [
        "a raise gets less because of what another process has leased",
        'if (isWhole || first.status === "lost" || !(await leases.recall(request.accountId))) return first;',
        "if (isWhole || request !== undefined) return first;",
      ],
      [
        "a second raise that adds nothing forgets what the first one has added",
        'second.status === "refused" ? first : second',
        "second",
      ],
      [
        "calls that a lease counts in advance are refused",
        'if (outcome.status === "rate_limited") return rateLimit?.isTold !== true;',
        'if (outcome.status === "rate_limited") return false;',
      ],
    ],
  ),
  ...of(
    "src/batches/slots.ts",
    ["batches/shared-slots"],
    [
      [
        "a batch of long calls keeps its slot until its end",
        "if (!isWanted || !isDue(until, now(), SLOT_MS)) return false;",
        "if (until > 0) return false;",
      ],
    ],
  ),
  ...of(
    "src/batches/batch-runner.ts",
    ["batches/shared-slots"],
    [
      [
        "batches that wait for their keys keep those of others from running",
        "run.running.size === 0 && run.pausedUntil > now() + SHORT_WAIT_MS",
        "run.running.size < 0",
      ],
      [
        "the failures of an item are forgotten when its batch waits",
        "db.write((tx) => countFailure(tx, id, position))",
        "isPending(db, id, position)",
      ],
    ],
  ),
  ...of(
    "src/base/time.ts",
    ["responses/queued-changes"],
    [
      [
        "what waits is not looked at until a clock that was set back has caught up",
        "  return at <= now || at - now > longestMs;\n",
        "  return at <= now;\n",
      ],
    ],
  ),
  ...of(
    "src/ledger/batch-holds.ts",
    ["ledger/credit-leases"],
    [
      [
        "a response that waits is refused for calls that a lease counts in advance",
        "    if (!isCovered || !isInRate) await recallLeases(tx, accountId);\n",
        "    if (!isCovered) await recallLeases(tx, accountId);\n",
      ],
    ],
  ),
  ...of(
    "src/batches/create-batch.ts",
    ["server/recalled-leases"],
    [
      [
        "a batch is refused because of what another process has leased",
        "    await freeCreditsForBatch(db, holdRequestOf(deps, batch, now()));\n",
        "",
      ],
    ],
  ),
  ...of(
    "src/billing/payments/payment-facts.ts",
    ["billing/payments/refunds-and-disputes"],
    [["a refund leaves what a process has leased", "    await freeLeasedCredits(db, fact);\n", ""]],
  ),
  ...of(
    "src/keys/keys.ts",
    ["ledger/credit-leases"],
    [
      [
        "a revocation recalls no leases",
        "  await recallLeases(tx, accountId);\n  const revoked = await tx.run(",
        "  const revoked = await tx.run(",
      ],
    ],
  ),
  ...of(
    "src/keys/keys.ts",
    ["server/recalled-leases"],
    [
      [
        "a change of a key recalls no leases",
        '  await recallLeases(tx, accountId);\n  await tx.lockMany("api_key", "id", [id]);',
        '  await tx.lockMany("api_key", "id", [id]);',
      ],
    ],
  ),
  ...of(
    "src/ledger/wallet-budgets.ts",
    ["server/recalled-leases"],
    [["a change of a budget recalls no leases", "  await recallLeases(tx, accountId);\n", ""]],
  ),
  ...of(
    "src/ledger/freezes.ts",
    ["server/recalled-leases"],
    [
      [
        "a closing recalls no leases",
        "  if (at !== null) await recallLeases(tx, accountId);\n",
        "",
      ],
      [
        "a freeze recalls no leases",
        "  if (freeze !== null) await recallLeases(tx, accountId);\n",
        "",
      ],
    ],
  ),
  ...of(
    "src/ledger/commit/apply-leases.ts",
    ["ledger/credit-leases"],
    [
      [
        "a lease that is raised and filled in one batch is compared with the raised one",
        "!writes.leasesBefore.has(lease.id) && !writes.raisedHolds.has(lease.id);",
        "!writes.leasesBefore.has(lease.id);",
      ],
    ],
  ),
  ...of(
    "src/ledger/credit-leases.ts",
    ["ledger/credit-leases"],
    [
      [
        "a raise after the settlement of its call keeps a part of the lease",
        "const isSettled = book.calls.get(request.id) !== call;",
        "const isSettled = false;",
      ],
      [
        "a lease that is returned during a raise loses what the raise adds",
        "const keep = { amount: lease.openAmount, calls: lease.openCalls };",
        "const shares = [...book.calls.values()].filter((call) => call.lease === lease);\n  const keep = { amount: shares.reduce((sum, { share }) => sum + share, 0n), calls: lease.openCalls };",
      ],
      [
        "two raises at once ask for the larger one only",
        "const { id, accountId, keyId, openAmount: amount } = lease;",
        "const { id, accountId, keyId } = lease;\n      const shares = [...book.calls.values()].filter((one) => one.lease === lease);\n      const amount = shares.reduce((sum, { share }) => sum + share, missing);",
      ],
    ],
  ),
  ...of(
    "src/keys/key-cache.ts",
    ["keys/keys"],
    [
      [
        "a revoked key stays in the cache",
        "if (key === undefined) cache.delete(raw);",
        "if (key === undefined) continue;",
      ],
    ],
  ),
  ...of(
    "src/ledger/commit/statement-hook.ts",
    ["ledger/commit/row-cache"],
    [
      [
        "holds rest on the settings of a key before their change",
        "columns.every((column) => LAST_USES.has(column))",
        "columns.some((column) => LAST_USES.has(column))",
      ],
    ],
  ),
  ...of(
    "src/usage/rollup/charge-hours.ts",
    ["store/citus-verification"],
    [
      [
        "charges are rolled up between the statements that compare them on a distributed store",
        'await tx.run("lock table charge_hour in share row exclusive mode");',
        "",
      ],
    ],
  ),
  ...of(
    "src/usage/rollup/rollup-queue.ts",
    ["usage/rollup-queue"],
    [
      [
        "usage that was rolled up from the store is counted again",
        "if (rows.length < keys.length) return false;",
        "",
      ],
      [
        "rows whose sums were replaced stay and are counted again",
        'await tx.deleteMany("usage_pending", "account_id, id", keys);',
        "",
      ],
    ],
  ),
  ...of(
    "src/ledger/decide.ts",
    ["inference/lifecycle/rolling-holds"],
    [
      [
        "a hold is raised beyond what is affordable",
        "const added = minNano(missing, minNano(ofBudget, availableOf(wallet)));",
        "const added = missing;",
      ],
    ],
  ),
  ...of(
    "src/inference/lifecycle/hold/hold-faults.ts",
    ["inference/lifecycle/held-credit"],
    [
      [
        "credits that open calls hold are refused for good",
        'return minimum <= outcome.posted ? "held_by_account" : undefined;',
        "return undefined;",
      ],
      [
        "a key's limit that its open calls hold is refused for good",
        'return minimum <= outcome.remaining + outcome.held ? "held_by_key" : undefined;',
        "return undefined;",
      ],
      [
        "a call waits for a key's limit that no open call holds",
        'return minimum <= outcome.remaining + outcome.held ? "held_by_key" : undefined;',
        'return "held_by_key";',
      ],
      [
        "a session's limit that its open calls hold is refused for good",
        'return minimum <= outcome.limit - outcome.spent ? "held_by_key" : undefined;',
        "return undefined;",
      ],
      [
        "a budget that open calls hold is refused for good",
        'return minimum <= (limit ?? 0n) - used ? "held_by_account" : undefined;',
        "return undefined;",
      ],
    ],
  ),
  ...of(
    "src/ledger/decide.ts",
    ["ledger/histories/histories"],
    [
      [
        "an account with a debt raises its holds",
        'if (owed !== undefined) return { status: "refused" };',
        "",
      ],
      [
        "a raise ignores the key's limit",
        "const ofKey = remainingKeyLimit(key, keySpend, at, missing);",
        "const ofKey = missing;",
      ],
      [
        "a raise ignores the budgets",
        "const ofBudget = remainingBudget(budget, { held, at, wanted: ofSession });",
        "const ofBudget = ofSession;",
      ],
      [
        "a raise adds the whole amount to what is held already",
        "const missing = wanted - hold.amount;",
        "const missing = wanted;",
      ],
      ["a raise is not held of the wallet", "wallet.held += added;", ""],
      ["a raise is not held of the key's limit", "keySpend.held += added;", ""],
    ],
  ),
  ...of(
    "src/inference/lifecycle/reply/meter.ts",
    ["inference/lifecycle/rolling-bursts"],
    [
      [
        "a stream is charged more than its hold could be raised to",
        "const most = hold.amount + maxNano(billed.cost - hold.limit, 0n);",
        "const most = billed.cost;",
      ],
    ],
  ),
  ...of(
    "src/inference/lifecycle/settle.ts",
    ["inference/lifecycle/rolling-bursts"],
    [
      [
        "a stream that was faster than its hold is charged only what was held",
        "if (roll === undefined || billed.cost <= hold.amount) return billed;",
        "return withinHold(call, billed);",
      ],
    ],
  ),
  ...of(
    "src/keys/derived-key.ts",
    ["keys/derived-keys"],
    [
      [
        "a derived key is accepted without its signature",
        "return timingSafeEqualText(signed, signature) ? texts : undefined;",
        'return signature === "" ? undefined : texts;',
      ],
      [
        "an unknown caveat restricts nothing",
        "const Caveats = z.strictObject({",
        "const Caveats = z.looseObject({",
      ],
    ],
  ),
  ...of(
    "src/mcp-sign-in/redirect-uris.ts",
    ["app-sign-in/app-sign-in"],
    [
      [
        "the host of a callback URL adds a directive to the policy of the page",
        "if (!HOST.test(url.hostname))",
        'if (HOST.test("") && url.hostname === "?")',
      ],
    ],
  ),
  ...of(
    "src/inference/metering/document-bound.ts",
    ["inference/metering/document-bound"],
    [
      [
        "a page that is in the tree of a PDF twice is held for once",
        "if (kids.values().some((count) => count > 1)) throw NO_BOUND;",
        "",
      ],
      [
        "the content of many pages of a PDF is held for once",
        "shown += shownBytes(content) * count;",
        "shown += shownBytes(content);",
      ],
      [
        "an object that is hidden in a stream of a PDF is not held for",
        "OBJECT.test(raw) || raw.includes(",
        "raw.includes(",
      ],
      [
        "codes of a font that stand for long texts are held for as one character",
        "bytesPerCode = Math.max(bytesPerCode, longestCode(data));",
        "bytesPerCode = Math.max(bytesPerCode, 1);",
      ],
      [
        "the pages of object streams are not held for",
        'const structure = [outside, ...objects.map(inflate)].join("\\n");',
        "const structure = outside;",
      ],
    ],
  ),
  ...of(
    "src/inference/lifecycle/reply/collect-whole-reply.ts",
    ["inference/lifecycle/collected-replies"],
    [
      [
        "output that is not held for is collected",
        "if (roll !== undefined && !isCovered(roll, tokens)) return addHeldEvent(collection, event, roll);",
        "",
      ],
      [
        "a reply that was cut is charged more than was held",
        "const billed = withinHold(call, await chargeCutStream(deps, call, meter));",
        "const billed = { ...(await chargeCutStream(deps, call, meter)), cost: call.hold.limit * 2n };",
      ],
      [
        "a stream that broke is returned as a whole reply",
        'if (json === undefined || !isComplete) return brokenStream("incomplete");',
        'if (json === undefined) return brokenStream("incomplete");',
      ],
    ],
  ),
  ...of(
    "src/inference/lifecycle/reply/respond-to-caller.ts",
    ["inference/lifecycle/collected-replies"],
    [
      [
        "a collected reply is charged beyond its hold",
        "return { ...charged, ...(await heldCharge(deps.settle, call, charged)) };",
        "return charged;",
      ],
      [
        "a reply that was cut is replayed as if it were whole",
        "const isRepeatable = input.idempotent !== undefined && !isCut;",
        "const isRepeatable = input.idempotent !== undefined;",
      ],
    ],
  ),
  ...of(
    "src/inference/streaming/recent-outputs.ts",
    ["inference/lifecycle/recent-outputs"],
    [
      [
        "the first part of a hold has no upper bound",
        "return Math.min(FIRST_TOKENS_MAX, Math.max(FIRST_TOKENS_MIN, value));",
        "return Math.max(FIRST_TOKENS_MIN, value);",
      ],
    ],
  ),
  ...of(
    "src/inference/metering/image-size.ts",
    ["inference/metering/image-bounds"],
    [
      [
        "the size of a thumbnail in a JPEG is held for",
        "at += 2 + (isAlone ? 0 : data.readUInt16BE(at + 2));",
        "at += isAlone ? 2 : 12;",
      ],
      [
        "a GIF whose frame is larger than its screen is held by its screen",
        "data.readUInt16LE(offsetAt) + data.readUInt16LE(offsetAt + 4),",
        "0,",
      ],
      [
        "an image whose base64 decoders read differently is held by its head",
        'return pattern.test(encoded) ? Buffer.from(encoded, "base64") : undefined;',
        'return Buffer.from(encoded, "base64");',
      ],
    ],
  ),
  ...of(
    "src/inference/metering/input-bound.ts",
    ["inference/metering/image-bounds"],
    [
      [
        "an image part that names another file, too, is held by its own pixels",
        "return value === undefined || others.length > 0 ? undefined : imageSize(value);",
        "return value === undefined ? undefined : imageSize(value);",
      ],
      [
        "an image of unknown size is held as one token",
        "return (tokensBySize(part, rule) ?? rule.max) + IMAGE_FRAME_TOKENS;",
        "return (tokensBySize(part, rule) ?? 1) + IMAGE_FRAME_TOKENS;",
      ],
    ],
  ),
  ...of(
    "src/inference/streaming/relay.ts",
    ["inference/lifecycle/rolling-bursts"],
    [
      [
        "output is relayed that no credits are held for",
        "if (roll === undefined || hasClientLeft || isCovered(roll, arrivedTokens(relay.pipeline.meter))) {",
        "if (roll !== undefined || bytes.length > 0) {",
      ],
    ],
  ),
  ...of(
    "src/ledger/ledger.ts",
    ["inference/lifecycle/store-outage"],
    [
      [
        "charges a whole reply that was refused while the store was unavailable",
        "const free = { ...rest, cost: 0n };",
        "const free = { ...rest, cost: request.cost };",
      ],
    ],
  ),
  ...of(
    "src/ledger/commit/group-commit.ts",
    ["ledger/commit/group-commit"],
    [
      [
        "replaces a settlement that an attempt may still commit",
        "const kept = attempted.filter(({ operation }) => operationFor(operation) === operation);",
        "const kept = attempted;",
      ],
      [
        "gives up settlements while the store is unavailable for a minute",
        "{ new: 30, owed: 36_000 }",
        "{ new: 30, owed: 1_000 }",
      ],
    ],
  ),
  ...of(
    "src/inference/streaming/relay.ts",
    ["inference/lifecycle/store-outage"],
    [
      [
        "completes a stream whose charge is not in the ledger",
        'if (isComplete && isDeferred) closeIncomplete("store_unavailable");',
        "if (isComplete && isDeferred) closeResponse(relay, end);",
      ],
    ],
  ),
  ...of(
    "src/ledger/decide.ts",
    ["ledger/session-limits"],
    [
      [
        "holds of a session do not count towards its limit",
        "session.limit - session.spent - session.held",
        "session.limit - session.spent",
      ],
      ["calls do not count towards the limit of their session", "session.spent += cost;", ";"],
      ["a stopped session makes calls", "session.stoppedAt !== null", "false"],
      [
        "a header exceeds the limit of the key",
        "return minNano(limit, limitMax);",
        "return limit;",
      ],
    ],
  ),
  ...of(
    "src/ledger/decide.ts",
    ["ledger/ledger", "ledger/commit/hold-buffer", "ledger/debts"],
    [
      ["holds more than the balance", "if (needed > available)", "if (needed > available + 1n)"],
      [
        "ignores what other calls hold",
        "wallet.promo + wallet.paid - wallet.held",
        "wallet.promo + wallet.paid",
      ],
      [
        "admits a revoked key",
        "if (key.revokedAt !== null) return",
        "if (key.revokedAt === 0) return",
      ],
      ["admits a key at its expiry", "key.expiresAt <= request.now", "key.expiresAt < request.now"],
      [
        "admits one call too many",
        "keySpend.openCalls >= request.openCallsMax",
        "keySpend.openCalls > request.openCallsMax",
      ],
      [
        "exceeds the limit of a key",
        "if (needed > keyRemaining)",
        "if (needed > keyRemaining + 1n)",
      ],
      [
        "charges paid credit before promotional credit",
        "const promo = minNano(charged, wallet.promo);",
        "const promo = charged - minNano(charged, wallet.paid);",
      ],
      [
        "admits calls of a frozen account",
        "if (wallet.owed !== undefined) return { status",
        "if (wallet.owed === 0n) return { status",
      ],
      ["does not release the hold at a settlement", "    wallet.held -= hold.amount;\n", ""],
      [
        "does not release the open call of a key",
        "    keySpend.openCalls -= hold.calls ?? 1;\n",
        "",
      ],
    ],
  ),
];

const SETTLEMENTS: readonly Mutation[] = [
  ...of(
    "src/ledger/commit/batch.ts",
    ["ledger/commit/lost-commit-reply", "ledger/ledger"],
    [
      [
        "a repeated settlement takes paid credit for an overrun",
        "request.cost - charge.promo - charge.paid",
        "request.cost - charge.promo",
      ],
      [
        "a settlement of another account's hold is accepted",
        "if (wallet === undefined || keySpend === undefined || !hasSameOwner(existing, request))",
        "if (wallet === undefined || keySpend === undefined)",
      ],
    ],
  ),
  ...of(
    "src/ledger/sweep.ts",
    ["ledger/liveness"],
    [
      [
        "sweeps the holds of a live process",
        "found.epoch > owner.epoch",
        "found.epoch >= owner.epoch",
      ],
      [
        "releases the keys of a process that wrote a heartbeat since",
        'integer(row, "epoch") === epoch &&\n        integer(row, "seen_at") === seenAt',
        'integer(row, "epoch") === epoch',
      ],
      [
        "releases the keys of a process that has started again",
        'integer(row, "epoch") === epoch &&',
        "",
      ],
    ],
  ),
  ...of(
    "src/ledger/reconcile.ts",
    ["ledger/reconcile"],
    [
      [
        "a delivered reply becomes free when its hold was swept",
        "ledger.settle({ ...request, refuseUncovered: false })",
        "ledger.settle(request)",
      ],
    ],
  ),
  ...of(
    "src/inference/metering/cost-estimate.ts",
    ["inference/metering/smallest-hold"],
    [
      [
        "the smallest hold ignores the number of choices",
        "MIN_OUTPUT_TOKENS * choices",
        "MIN_OUTPUT_TOKENS",
      ],
    ],
  ),
  ...of(
    "src/inference/metering/charge.ts",
    ["inference/metering/stated-cost", "inference/metering/plausible-usage"],
    [
      [
        "a stated cost is not what is charged",
        "if (stated !== undefined)\n    return {",
        "if (stated === 0n)\n    return {",
      ],
      [
        "a stated cost is charged at the hold if the usage is implausible",
        "cost: stated,",
        "cost: isUsageImplausible ? minNano(stated, held) : stated,",
      ],
      [
        "a stated cost of 0 makes a call free",
        "statedCostUsd === undefined || statedCostUsd === 0",
        "statedCostUsd === undefined",
      ],
      [
        "implausible usage is charged beyond the hold",
        "isUsageImplausible ? minNano(priced.cost, held) : priced.cost",
        "priced.cost",
      ],
      [
        "reasoning is charged twice in a broken stream",
        "Math.max(0, outputTokens - (tokens.reasoning ?? 0))",
        "outputTokens",
      ],
    ],
  ),
  ...of(
    "src/inference/metering/charge.ts",
    ["inference/metering/service-tiers"],
    [
      [
        "a reply that does not name its tier is charged at the standard one",
        "...(isSilent && { serviceTier: silentTier }),",
        "",
      ],
    ],
  ),
  ...of(
    "src/models/data-policy.ts",
    ["inference/routing/data-policy"],
    [
      [
        "an unknown retention counts as none",
        "if (rules.zdr === true && retentionDays !== 0)",
        "if (rules.zdr === true && (retentionDays ?? 0) !== 0)",
      ],
      [
        "an unknown region is the one that is asked for",
        "region !== rules.region",
        "(region ?? rules.region) !== rules.region",
      ],
    ],
  ),
  ...of(
    "src/inference/lifecycle/count-tokens.ts",
    ["inference/routing/data-policy"],
    [
      [
        "a count of tokens shows data to a provider that the request excludes",
        "keepDataPolicy(found, request, input.caller, deps.route);\n  const [candidate] = allowedCandidates(permitted, input);\n  const sharedFault",
        "found;\n  const [candidate] = allowedCandidates(permitted, input);\n  const sharedFault",
      ],
    ],
  ),
  ...of(
    "src/inference/metering/other-models-cost.ts",
    ["inference/metering/server-tools"],
    [
      [
        "images of a tool are held at their fee, whatever their size costs",
        "BigInt(images) * (highest - fee)",
        "0n",
      ],
    ],
  ),
  ...of(
    "src/inference/metering/cost-estimate.ts",
    ["inference/metering/server-tools", "inference/metering/tool-holds"],
    [
      [
        "the prompt is held once, however often tools let the model read it",
        "calls < reads.calls; calls++",
        "calls < 0; calls++",
      ],
      [
        "a repeated read is held without the context that it may have",
        "longestRead(promptTokens, { ...reads, calls }, context)",
        "promptTokens",
      ],
      [
        "the last read is held without the results of tools",
        "repeatedTokens + longestRead(promptTokens, reads, limits.input)",
        "repeatedTokens + promptTokens",
      ],
    ],
  ),
  ...of(
    "src/inference/request/tool-bounds.ts",
    ["inference/metering/server-tools", "inference/metering/tool-holds"],
    [
      [
        "an MCP server's results are held like a search's",
        "if (hasServers) sizes.push(mcpTokens);",
        "if (hasServers) sizes.push(TOKENS_PER_SEARCH);",
      ],
      [
        "one use of a tool is held, whatever the limit is",
        "add(fees, fee, maxUses(tool, json, callsMax));",
        "add(fees, fee, 1);",
      ],
      [
        "searches by an option of the request are held without their price",
        'if (hasSearch) add(fees, "web_search", callsMax);',
        "",
      ],
      [
        "the caller's limit of calls does not decide the hold",
        "if (isCount(requestLimit)) return Math.min(requestLimit, MAX_TOOL_CALLS);",
        "",
      ],
      [
        "a limit of uses holds for all tools together, and not for each",
        "messages === undefined ? 1 : Math.max(1, open.length)",
        "1",
      ],
      [
        "uses that the caller allows are not held",
        "if (isCount(uses)) calls += uses;",
        "if (isCount(uses)) calls += 1;",
      ],
      [
        "compaction reads the prompt without a hold",
        "(hasCompaction(context_management) ? 1 : 0)",
        "0",
      ],
    ],
  ),
  ...of(
    "src/inference/request/tool-bounds.ts",
    ["inference/metering/ignored-tool-limits"],
    [
      [
        "`max_tool_calls` lowers the hold where the provider ignores it",
        "kept.max_tool_calls ? request : { ...request, max_tool_calls: undefined }",
        "request",
      ],
      [
        "`max_uses` lowers the hold of a tool without that field",
        "kept.max_uses && isLimitedByUses(tool) ? tool : withoutLimits(tool)",
        "tool",
      ],
    ],
  ),
  ...of(
    "src/inference/lifecycle/offer.ts",
    ["inference/lifecycle/quotes"],
    [
      [
        "a quote lowers the price of models that its key may not call",
        "servedBy.has(nameOf(candidate))",
        'servedBy.size > 0 || nameOf(candidate) === ""',
      ],
      [
        "a quote for the caller's own provider key makes the gateway's account free",
        '${byok ? " with your provider key" : ""}',
        '${byok ? "" : ""}',
      ],
    ],
  ),
  ...of(
    "src/inference/lifecycle/abandoned-calls.ts",
    ["inference/metering/abandoned-calls"],
    [["abandoned calls are not limited", "if (waitMs === 0) return;", "if (waitMs >= 0) return;"]],
  ),
  ...of(
    "src/inference/streaming/relay.ts",
    ["inference/streaming/ended-by-gateway"],
    [
      ["a stream that the gateway ends is free", "isAbandoned: !isBroken,", "isAbandoned: false,"],
      [
        "a stream that is too long is not read to its usage",
        "  else drainRest(relay);",
        "  else endAbandoned(relay, false);",
      ],
      [
        "a stream that is abandoned before its usage costs only what was relayed",
        "isBillOpen: relay.rest?.isBillOpen === true",
        "isBillOpen: false",
      ],
    ],
  ),
  ...of(
    "src/inference/lifecycle/reply/respond-stream.ts",
    ["inference/streaming/ended-entrances"],
    [
      [
        "a reply without its end is replayed",
        "isServed && !pipeline.parser.hasCutEvent",
        "isServed",
      ],
    ],
  ),
  ...of(
    "src/inference/lifecycle/reply/client-disconnect.ts",
    ["inference/metering/abandoned-cached-input"],
    [["cached input of a stream that is left is charged in full", " && !mayBeCached(call)", ""]],
  ),
  ...of(
    "src/inference/lifecycle/reply/client-disconnect.ts",
    ["inference/metering/provider-counts"],
    [
      [
        "a call of a tool is charged by its text",
        "encodingOf(model.id) !== undefined || toolCalls > 0",
        "encodingOf(model.id) !== undefined",
      ],
      [
        "thinking that the request does not ask for is not charged",
        "abilitiesOf(model).thinkingBudget !== false",
        "true",
      ],
    ],
  ),
  ...of(
    "src/inference/lifecycle/reply/meter.ts",
    ["inference/metering/empty-replies"],
    [
      [
        "an empty stream is charged",
        "if (isWhole && isNothing(meter, usage)) return NOTHING_BILLED;",
        "",
      ],
      [
        "an empty whole reply is charged",
        "if (meter !== undefined && isEmptyReply(meter))",
        "if (meter === undefined)",
      ],
    ],
  ),
  ...of(
    "src/inference/lifecycle/reply/meter.ts",
    ["inference/streaming/ended-entrances", "inference/metering/tool-holds"],
    [
      [
        "usage with invalid numbers makes a stream free",
        " &&\n    !isOutputUnreported(meter, usage)\n",
        "\n",
      ],
      [
        "usage with invalid numbers makes a whole reply free",
        "usage !== undefined && !isOutputUnreported(meter, usage)",
        "usage !== undefined",
      ],
      [
        "what tools let the model read is free if no usage is reported",
        "return call.request.toolCalls > 0 ||",
        "return call.request.toolCalls < 0 ||",
      ],
    ],
  ),
  ...of(
    "packages/wires/src/chat/reply/write-chat-reply.ts",
    [
      "packages/wires/test/chat-messages/chat-to-messages",
      "packages/wires/test/chat-messages/round-trip",
    ],
    [
      [
        "later reasoning texts are lost",
        'reasoningTexts.join("\\n\\n")',
        'reasoningTexts[0] ?? ""',
      ],
    ],
  ),
];

const GATEWAY_TOOLS: readonly Mutation[] = [
  ...of(
    "src/inference/lifecycle/tool-loop.ts",
    ["translation/tools/gateway-search", "inference/lifecycle/gateway-search-charges"],
    [
      ["searches more often than is held for", "if (count >= max || ", "if ("],
      ["sends a turn that the hold does not cover", "hold.limit - spentBy(state)", "hold.limit"],
    ],
  ),
  ...of(
    "src/inference/lifecycle/tool-loop.ts",
    ["inference/lifecycle/gateway-tool-charges"],
    [
      [
        "the limit of all tools holds for each of them",
        "return callsMax - search.count - fetch.count - mcp.count;",
        "return callsMax - mcp.count;",
      ],
      [
        "a call on the caller's own provider key ends after its first tool",
        "if (candidate.credential.byok) return left;",
        "",
      ],
    ],
  ),
  ...of(
    "src/inference/lifecycle/tool-loop.ts",
    ["translation/tools/gateway-fetch"],
    [["fetches a URL that a page made up", "!urls.has(url)", 'urls.has("")']],
  ),
  ...of(
    "src/inference/web-search/fetch-page.ts",
    ["translation/tools/gateway-fetch"],
    [
      [
        "follows a redirect to a domain that the caller excludes",
        "!isAllowedPage(next, request)",
        "!isAllowedPage(url, request)",
      ],
    ],
  ),
  ...of(
    "src/inference/lifecycle/settle.ts",
    ["inference/lifecycle/gateway-search-charges"],
    [
      [
        "gives turns away whose successor failed",
        "if (usage !== undefined) return chargeUsage(call, usage, now);",
        "",
      ],
    ],
  ),
  ...of(
    "src/inference/lifecycle/tool-loop.ts",
    ["inference/lifecycle/gateway-search-charges", "inference/lifecycle/gateway-tool-charges"],
    [["searches for a caller that has left", "if (hasCallerLeft(state)) break;", ""]],
  ),
];

const KEYS: readonly Mutation[] = [
  ...of(
    "src/http/key-policy.ts",
    ["keys/restricted-keys"],
    [
      [
        "lets a key with a token rate alone create keys",
        "(requestsPerMinute ?? tokensPerMinute ?? concurrentCalls)",
        "(requestsPerMinute ?? concurrentCalls)",
      ],
      [
        "lets a key with a limit of concurrent calls alone create keys",
        "(requestsPerMinute ?? tokensPerMinute ?? concurrentCalls)",
        "(requestsPerMinute ?? tokensPerMinute)",
      ],
      [
        "lets a key with a request rate alone create keys",
        "(requestsPerMinute ?? tokensPerMinute ?? concurrentCalls)",
        "(tokensPerMinute ?? concurrentCalls)",
      ],
    ],
  ),
  ...of(
    "src/inference/lifecycle/hold/key-rates.ts",
    ["keys/key-policy"],
    [
      [
        "a slow gateway rate is replaced by a key's faster one",
        "own.intervalMs >= limit.intervalMs",
        "own.intervalMs < limit.intervalMs",
      ],
      [
        "a key's rate is ignored beside the gateway's",
        "own !== undefined && own.intervalMs >= limit.intervalMs",
        "own !== undefined",
      ],
    ],
  ),
  ...of(
    "src/ledger/decide.ts",
    ["keys/narrowed-keys"],
    [
      [
        "a hold does not see that its key was restricted",
        "if (hasChanged(key, request.restrictions)) return",
        "if (key === undefined) return",
      ],
    ],
  ),
  ...of(
    "src/keys/delegation.ts",
    ["keys/delegation", "keys/restricted-keys"],
    [
      [
        "a restricted key revokes other keys",
        'if (access.granted.has("keys:manage") || target.id === id',
        "if (access.granted.size > 0 || target.id === id",
      ],
      [
        "a limited key creates one with a higher limit",
        "if (limit === null || limit > remaining)",
        "if (limit === null)",
      ],
      [
        "a key's children outlive it",
        "(expiresAt ?? Infinity) > key.expiresAt",
        "(expiresAt ?? 0) > key.expiresAt",
      ],
      ["a key raises its own limit", "change.limit > key.limit", "change.limit < 0n"],
      [
        "a key extends its own expiry",
        "key.expiresAt !== null && isLater",
        "key.expiresAt === 0 && isLater",
      ],
      [
        "a key adds scopes",
        "if (missing === undefined) return;",
        'if (missing !== "keys:write") return;',
      ],
    ],
  ),
];

const SECRETS: readonly Mutation[] = [
  ...of(
    "src/idempotency/idempotency.ts",
    ["idempotency/idempotency"],
    [
      [
        "encrypts replies without the client's idempotency key",
        "secret(`${part.reveal()}\\n${name(request)}`)",
        "secret(part.reveal())",
      ],
    ],
  ),
  ...of(
    "src/base/crypto/encryption.ts",
    ["provider-keys/encryption", "responses/record-encryption"],
    [
      [
        "does not check the associated data",
        "  decipher.setAAD(Buffer.from(associatedData));",
        '  decipher.setAAD(Buffer.from(""));',
      ],
    ],
  ),
  ...of(
    "src/base/crypto/secret.ts",
    ["base/crypto/secret"],
    [
      [
        "a secret prints itself",
        "const hide = (): string => HIDDEN;",
        "const hide = (): string => value;",
      ],
      [
        "texts of different lengths are equal",
        "let difference = left.length ^ right.length;",
        "let difference = 0;",
      ],
    ],
  ),
  ...of(
    "src/inference/upstream/redact.ts",
    ["inference/upstream/error-redaction"],
    [
      [
        "errors quote the key that was sent",
        'raw.length >= 8 ? text.replaceAll(raw, "[key]") : text',
        "text",
      ],
    ],
  ),
  ...of(
    "src/http/finish-response.ts",
    ["http/logged-paths"],
    [
      [
        "logs the path and its token",
        "if (match !== undefined) return match.route.path;",
        "if (match !== undefined) return path;",
      ],
      [
        "logs a token of a path without a route",
        "part.length > LOGGED_PART_MAX_LENGTH",
        "part.length > 2_000",
      ],
    ],
  ),
  ...of(
    "src/http/guards/session-guard.ts",
    ["people/sessions"],
    [
      [
        "accepts forms of other origins",
        "if (!isSameOrigin(headers, baseUrl)) throw",
        'if (baseUrl === "") throw',
      ],
      [
        "accepts forms without the CSRF token",
        "!timingSafeEqualText(token, sessionUser.csrf)",
        'token === "wrong"',
      ],
    ],
  ),
  ...of(
    "src/people/sign-in.ts",
    ["people/sign-in"],
    [
      [
        "redirects to other sites after a sign-in",
        'url.origin !== base.origin || url.pathname.startsWith("//")',
        'url.pathname === ""',
      ],
      [
        "accepts a sign-in after its time",
        "pending === undefined || pending.until <= now",
        "pending === undefined",
      ],
    ],
  ),
];

const ROUTING: readonly Mutation[] = [
  ...of(
    "src/inference/upstream/attempt.ts",
    ["inference/routing/shared-circuits"],
    [
      [
        "failures of unfunded accounts open circuits for others",
        "request.isPaying && !credential.byok",
        "!credential.byok",
      ],
      [
        "another account's error text is repeated",
        "const message = isOfOtherAccount\n",
        "const message = fault.status < 0\n",
      ],
      [
        "failures to connect count for one account only",
        "if (result.isConnectFailure === true)",
        "if (result.isConnectFailure === false)",
      ],
    ],
  ),
  ...of(
    "src/inference/upstream/error-replies.ts",
    ["inference/routing/shared-circuits"],
    [
      [
        "the caller's error in a 200 counts as the provider's",
        "[/^(invalid|bad_?request",
        "[/^(bad_?request",
      ],
      ["the status within an error is ignored", "if (stated !== undefined) return stated;", ""],
    ],
  ),
  ...of(
    "src/inference/routing/circuit-breaker.ts",
    ["inference/routing/circuit-breaker"],
    [
      [
        "an unfunded account's success closes the circuit",
        "if (caller.isShared) shared.delete(name);",
        'if (caller.isShared || name !== "") shared.delete(name);',
      ],
      [
        "an unfunded account takes the probe",
        "if (!isShared && sharedCircuit !== undefined",
        "if (isShared && sharedCircuit !== undefined",
      ],
      [
        "one account opens the circuit for all",
        "Math.min(failures, FAILURES_COUNTED_PER_ACCOUNT_MAX)",
        "failures",
      ],
    ],
  ),
  ...of(
    "src/inference/lifecycle/settle.ts",
    ["inference/routing/adaptive-routing"],
    [
      [
        "unfunded accounts measure the throughput of providers",
        "if (call.hold.isPaying) deps",
        "deps",
      ],
    ],
  ),
];

const CONNECTIONS: readonly Mutation[] = [
  ...of(
    "src/responses/websocket/websocket-connection.ts",
    ["responses/websocket-floods"],
    [
      [
        "a flood of rejected messages goes on",
        "state.faults >= FAULTS_MAX && !state.isClosed",
        "state.faults < 0",
      ],
      [
        "an overflow of the queue goes on",
        'return state.socket?.close(CLOSE.policy, "too many messages wait");',
        "return;",
      ],
      [
        "messages do not count in the rate of the key",
        "    options.countMessage();\n    const refusal",
        "    const refusal",
      ],
      ["pings are free", "  try {\n    options.countMessage();\n  } catch", "  try {\n  } catch"],
      [
        "what the client does not read is not counted",
        "if (added > 0) options.keepBytes(added);",
        "if (added > 0) return;",
      ],
    ],
  ),
  ...of(
    "src/base/network/public-address.ts",
    ["webhooks/ssrf"],
    [
      ["a webhook reaches a Kubernetes service", "onion|svc|", "onion|"],
      ["a webhook reaches a cloud's metadata server", '  ["169.254.0.0", 16],\n', ""],
      ["a webhook reaches the private network", '  ["10.0.0.0", 8],\n', ""],
      ["IPv4-mapped addresses pass", 'ipv6Global.check(address, "ipv6") && ', ""],
    ],
  ),
  ...of(
    "src/base/network/public-endpoint.ts",
    ["webhooks/ssrf"],
    [
      [
        "one public address among private ones is enough",
        "!addresses.every(isAllowed)",
        "!addresses.some(isAllowed)",
      ],
    ],
  ),
  ...of(
    "src/http/guards/pipelining.ts",
    ["http/pipelining"],
    [
      [
        "a connection pipelines without limit",
        "return count > PER_CONNECTION_MAX;",
        "return count < 0;",
      ],
    ],
  ),
  ...of(
    "src/mcp/tools.ts",
    ["mcp/http"],
    [["an id climbs to another path", 'value === "." || value === ".."', 'value === "."']],
  ),
  ...of(
    "src/mcp/check-params.ts",
    ["mcp/http"],
    [["wrong parameters are an internal error", "code: INVALID_PARAMS", "code: -32_603"]],
  ),
  ...of(
    "src/verified-agents/verified-agents.ts",
    ["verified-agents/verified-agents"],
    [
      [
        "the algorithm of a signature is ignored",
        "algorithm !== undefined && algorithm !== ALGORITHM",
        'algorithm === "none"',
      ],
      [
        "an expired signature is accepted",
        "if (expiresAt <= now) throw",
        "if (expiresAt <= 0) throw",
      ],
    ],
  ),
  ...of(
    "src/discovery/model-pages/model-pages-routes.ts",
    ["discovery/model-pages"],
    [["a network searches the models without limit", "if (waitMs > 0)", "if (waitMs < 0)"]],
  ),
];

const BILLING: readonly Mutation[] = [
  ...of(
    "src/billing/x402/upto-payment-rows.ts",
    ["billing/x402/upto-faults"],
    [
      [
        "payments of several wallets at once exceed the limit of what is at risk",
        '  await lockByName(tx, "metered_payment");\n',
        "",
      ],
    ],
  ),
  ...of(
    "src/billing/invoices/invoices.ts",
    ["accounts/read-before-write"],
    [
      [
        "an account opens more invoices at once than the limit",
        '  await tx.lockMany("account", "id", [act.accountId]);\n',
        "",
      ],
    ],
  ),
  ...of(
    "src/webhooks/webhooks.ts",
    ["accounts/read-before-write"],
    [
      [
        "an account creates more webhooks at once than the limit",
        "  await lockWorkspace(tx, accountId);\n",
        "",
      ],
    ],
  ),
  ...of(
    "src/billing/x402/chain-client.ts",
    ["billing/x402/upto-faults"],
    [
      [
        "another settlement that has the nonce proves a payment",
        "data.startsWith(words, position)",
        "data.includes(words.slice(128, 192), position)",
      ],
      ["the payment of an invoice pays for a call", " && !authorized.has(log.logIndex)", ""],
    ],
  ),
  ...of(
    "src/billing/x402/upto-payments.ts",
    ["billing/x402/upto-faults"],
    [["one transfer pays for several calls", "others < payments ?", "others >= 0 ?"]],
  ),
  ...of(
    "src/billing/x402/x402-messages.ts",
    ["billing/x402/x402-payments"],
    [
      [
        "a payment to another payee reaches the facilitator",
        "!equalsIgnoreCase(authorization.to, requirements.payTo)",
        'authorization.to === ""',
      ],
      [
        "another payee in `accepted` reaches the facilitator",
        "!equalsIgnoreCase(accepted.payTo, requirements.payTo)",
        'accepted.payTo === ""',
      ],
      [
        "a payment of another amount reaches the facilitator",
        "BigInt(authorization.value) !== BigInt(requirements.amount)",
        'authorization.value === ""',
      ],
      [
        "another amount in `accepted` reaches the facilitator",
        "accepted.amount !== requirements.amount ||",
        "",
      ],
      [
        "a payment in another token reaches the facilitator",
        "if (!equalsIgnoreCase(accepted.asset, requirements.asset)) return",
        'if (accepted.asset === "") return',
      ],
    ],
  ),
  ...of(
    "src/billing/top-up/top-up-worker.ts",
    ["billing/top-up/top-up-worker"],
    [
      [
        "two processes charge the same top-up",
        'set due_at = ? where id = ? and due_at = ?", [now + LEASE_MS, id, dueAt]',
        'set due_at = ? where id = ?", [now + LEASE_MS, id]',
      ],
      [
        "the monthly ceiling is exceeded",
        "boughtCents + amountCents > ceilingCents",
        "boughtCents > ceilingCents",
      ],
    ],
  ),
  ...of(
    "src/webhooks/delivery-worker.ts",
    ["webhooks/backoff"],
    [
      [
        "`retry-after` delays an event for a year",
        "Math.min(retryAfterMs, RETRY_AFTER_MAX_MS)",
        "retryAfterMs",
      ],
      ["`retry-after` is ignored", "Math.max(jittered, ", "Math.min(jittered, "],
    ],
  ),
];

const STOPS: readonly Mutation[] = [
  ...of(
    "packages/wires/src/passes/cut-at-stops.ts",
    ["packages/wires/test/passes/cut-at-stops"],
    [
      [
        "a stream shows the beginning of a stop sequence",
        "released(position, held, held.text.length - heldLength(held.text, stops))",
        "released(position, held, held.text.length)",
      ],
      [
        "a stream goes on after a stop sequence",
        "return state.stop === undefined ? changePart(event, state, stops) : [];",
        "return changePart(event, state, stops);",
      ],
      [
        "loses what was held back at the end of a part",
        "...released(position, held, held.text.length), event]",
        "event]",
      ],
      [
        "a whole reply ends at another sequence than a stream",
        "const later = found === undefined ? -1 : at + stop.length - (found.at + found.stop.length);",
        "const later = found === undefined ? -1 : at - found.at;",
      ],
      [
        "a reply that ended at a stop sequence reports another stop reason",
        '{ ...finish, reason: "stop_sequence", stopSequence: stop }',
        "finish",
      ],
    ],
  ),
  ...of(
    "packages/wires/src/count-requests.ts",
    ["packages/wires/test/count-requests"],
    [["takes any number for a count", "count >= 0", "true"]],
  ),
];

const ACCOUNTS: readonly Mutation[] = [
  ...of(
    "src/account-data/erasure.ts",
    ["account-data/closing"],
    [
      ["the network of the creator stays after the erasure", "created_from = '', ", ""],
      [
        "an account with money in flight is erased",
        "if (await hasMoneyInFlight(db, accountId)) continue;",
        "",
      ],
    ],
  ),
  ...of(
    "src/responses/storage/response-rows.ts",
    ["responses/previous-response"],
    [
      [
        "an expired predecessor reaches the model",
        "where ${earlier.sql} and r.expires_at > ? and chain.place < ?",
        "where ${earlier.sql} and ? > 0 and chain.place < ?",
      ],
      [
        "a response continues one of another account",
        "where ${earlier.sql} and r.expires_at",
        "where ? <> '' and r.expires_at",
      ],
    ],
  ),
  ...of(
    "src/device-login/device-login.ts",
    ["device-login/device-login"],
    [
      [
        "a device code that is used twice leaves its key alive",
        "    await revokeIssued(tx, row, request);\n",
        "",
      ],
      [
        "an approved sign-in never expires",
        'if (integer(row, "expires_at") <= now) return',
        'if (integer(row, "expires_at") <= now - 86_400_000) return',
      ],
      ["codes can be guessed without limit", "    await countTry(tx, viewer);\n", ""],
      ["a key of a program can do everything", "    scopes: MODEL_CALL_SCOPES,\n", ""],
    ],
  ),
  ...of(
    "src/mcp-sign-in/authorization-codes.ts",
    ["mcp-sign-in/mcp-sign-in"],
    [
      [
        "a stolen code of an MCP sign-in works without its verifier",
        'if (!verifyCodeChallenge(codeVerifier, text(row, "code_challenge")))',
        "if (codeVerifier === text(row, 'code_challenge'))",
      ],
      [
        "another client redeems a code",
        'text(row, "client_id") !== clientId)',
        'text(row, "client_id") === "")',
      ],
      [
        "a code works at another redirect URI",
        'text(row, "redirect_uri") !== redirectUri)',
        'text(row, "redirect_uri") === "")',
      ],
      [
        "a code that is used twice leaves its key alive",
        "    await revokeKey(tx, act, keyId);\n",
        "",
      ],
      [
        "a code of an MCP sign-in never expires",
        'if (integer(row, "expires_at") <= now) return',
        'if (integer(row, "expires_at") <= now - 86_400_000) return',
      ],
      ["an MCP client gets a key without the limit", "    limit: grant.limit,\n", ""],
    ],
  ),
  ...of(
    "src/mcp-sign-in/redirect-uris.ts",
    ["mcp-sign-in/mcp-sign-in"],
    [
      [
        "a loopback redirect URI has any path",
        "withoutPort(other) === withoutPort(uri),",
        "new URL(other).hostname === new URL(uri).hostname,",
      ],
    ],
  ),
  ...of(
    "src/mcp-sign-in/mcp-clients.ts",
    ["mcp-sign-in/mcp-sign-in"],
    [
      [
        "a client id is accepted without its MAC",
        "fingerprints(key, registration).some((expected) => timingSafeEqualText(expected, mac));",
        "mac !== registration;",
      ],
    ],
  ),
  ...of(
    "src/mcp/mcp-sessions.ts",
    ["mcp/sessions"],
    [
      [
        "a session at /mcp never ends",
        "where id_hash in (?, ?) and expires_at > ?",
        "where id_hash in (?, ?) and (expires_at > ? or true)",
      ],
    ],
  ),
  ...of(
    "src/claims/claims.ts",
    ["claims/claim-attempt"],
    [
      [
        "another person repeats a claim",
        "attempt.claimedBy !== claimer.personId || attempt.claimedRole === null",
        "attempt.claimedRole === null",
      ],
    ],
  ),
];

const CREDENTIALS: readonly Mutation[] = [
  ...of(
    "src/keys/derived-key.ts",
    ["keys/derived-keys"],
    [
      [
        "a derived key with a forged signature is accepted",
        "return timingSafeEqualText(signed, signature) ? texts : undefined;",
        "return texts;",
      ],
      [
        "an unknown caveat is ignored",
        "const Caveats = z.strictObject({",
        "const Caveats = z.object({",
      ],
    ],
  ),
  ...of(
    "src/keys/derived-keys.ts",
    ["keys/derived-keys"],
    [
      ["a derived key has more than its parent", "isNarrowing: true", "isNarrowing: false"],
      [
        "a derived key is made of a secret that a rotation has replaced",
        "const root = await findRoot();",
        "const root = found;",
      ],
      [
        "a derived key creates keys",
        "block.scopes ?? MODEL_CALL_SCOPES.filter((scope) => granted.has(scope))",
        "block.scopes ?? null",
      ],
    ],
  ),
  ...of(
    "src/keys/keys.ts",
    ["accounts/member-keys"],
    [
      [
        "a developer derives keys beyond the allowance",
        "substr(ancestors, 1, ${KEY_ID_CHARACTERS}) in",
        "id in",
      ],
    ],
  ),
  ...of(
    "src/keys/keys.ts",
    ["keys/derived-keys"],
    [
      [
        "derived keys outlive their parent",
        "await recordKeyRevoked(tx, act, key);\n    await revokeDerivedKeys(tx, act, id);",
        "await recordKeyRevoked(tx, act, key);",
      ],
      [
        "derived keys keep what their parent lost",
        "if (restrictionsOf(before) !== restrictionsOf(after)) await revokeDerivedKeys(tx, act, id);",
        "",
      ],
      [
        "derived keys stay without a limit when their parent gets one",
        "expiresAt, limit === null]",
        "expiresAt]",
      ],
      [
        "a derived key is rotated, and made again by its text",
        "if (before.derivedFrom !== null)",
        'if (before.derivedFrom !== null && id === "")',
      ],
      [
        "a sub-agent uses up the derived keys of its account",
        'integer(row, "below") >= KEYS_BELOW_DERIVED_MAX',
        'integer(row, "below") > KEYS_PER_ACCOUNT_MAX',
      ],
    ],
  ),
  ...of(
    "src/signed-requests/signed-requests.ts",
    ["signed-requests/signed-requests"],
    [
      [
        "a signed request works twice",
        "if (await spendOnce(tx, `nonce.${id}`, expiresAt)) return;",
        "if ((await spendOnce(tx, `nonce.${id}`, expiresAt)) || true) return;",
      ],
      ["a body that is not signed is accepted", "if (body.length === 0) return;", "return;"],
      [
        "the boundary of a signed form is not covered",
        '!isMultipart(message.headers) || has("content-type")',
        "isMultipart(message.headers) || true",
      ],
      [
        "a header that changes the cost is not covered",
        "COVERED_HEADER.test(name) && !has(name)",
        "!COVERED_HEADER.test(name) && has(name) && false",
      ],
      [
        "the public key of another agent is bound",
        "readSignature(message, thumbprintOf(x));",
        "readSignature(message);",
      ],
    ],
  ),
  ...of(
    "src/keys/key-hashes.ts",
    ["signed-requests/signed-requests"],
    [
      [
        "keys are derived from the name of a public key",
        'if (raw.includes("-dk-") || isCredentialName(raw))',
        'if (raw.includes("-dk-"))',
      ],
    ],
  ),
  ...of(
    "src/workload-identity/workload-identity.ts",
    ["workload-identity/workload-identity"],
    [
      [
        "a token for several audiences is accepted",
        'if (typeof audience !== "string" || second !== undefined) return undefined;',
        'if (typeof audience !== "string") return undefined;',
      ],
      [
        "an issuer that no key names gets a request",
        'if (claims.iss !== credential.issuer) return "its `iss` is not the issuer of the key";',
        "",
      ],
      [
        "a token is valid for a year",
        "if ((exp - iat) * SECOND_MS > LIFETIME_MAX_MS)",
        "if ((exp - iat) * SECOND_MS > 365 * LIFETIME_MAX_MS)",
      ],
    ],
  ),
  ...of(
    "src/keys/key-credential.ts",
    ["workload-identity/workload-identity"],
    [
      [
        "a subject trusts all of an issuer",
        'if (subject.includes("*") && !SUBJECT_PREFIX.test(subject))',
        'if (subject.includes("*") && !subject.endsWith("*"))',
      ],
    ],
  ),
  ...of(
    "src/keys/key-credential.ts",
    ["workload-identity/workload-identity"],
    [
      [
        "a job creates keys that outlive its token",
        'credential?.type === "oidc" ? granted.difference(SCOPES_THAT_OUTLIVE_TOKENS) : granted',
        'credential?.type === "oidc" ? granted : granted',
      ],
    ],
  ),
  ...of(
    "src/inference/lifecycle/enforce-key-policy.ts",
    ["keys/derived-keys"],
    [
      [
        "a key calls an endpoint that it may not",
        "if (endpoints === undefined || endpoints.includes(api)) return;",
        "if (endpoints !== null) return;",
      ],
    ],
  ),
  ...of(
    "src/keys/delegation.ts",
    ["keys/derived-keys"],
    [
      [
        "a derived key calls endpoints that its parent may not",
        "policy.endpoints?.includes(api) === false",
        "policy.endpoints?.includes(api) === undefined",
      ],
    ],
  ),
  ...of(
    "src/inference/lifecycle/infer.ts",
    ["keys/derived-keys"],
    [
      [
        "a key leaves its session by a header",
        "const id = bound ?? caller.keyId;",
        "const id = session?.id ?? bound ?? caller.keyId;",
      ],
      [
        "a call without a session is not limited as one",
        "sessionLimitUsd === undefined || session !== undefined",
        "sessionLimitUsd === undefined || session === undefined",
      ],
    ],
  ),
  ...of(
    "src/http/request/body-hash.ts",
    ["signed-requests/signed-requests"],
    [
      [
        "a signed upload may have another body",
        "flush: () => check({ length, sha256: hash.digest() }),",
        "flush: () => {},",
      ],
    ],
  ),
  ...of(
    "src/inference/lifecycle/settle.ts",
    ["receipts/receipts"],
    [
      [
        "a receipt hashes what the gateway made of the request",
        "?? sha256(input.received ?? input.text)",
        "?? sha256(input.text)",
      ],
    ],
  ),
  ...of(
    "src/inference/lifecycle/offer.ts",
    ["guardrails/guardrails"],
    [
      [
        "a quote pays for a request that a hook made longer",
        "if (call.input.unchecked !== undefined)",
        'if (call.input.unchecked === "")',
      ],
    ],
  ),
  ...of(
    "src/inference/lifecycle/offer.ts",
    ["inference/lifecycle/contracts-of-endpoints"],
    [
      [
        "a quote binds a call with another body",
        "request_sha256 !== hashRequest(request)",
        'request_sha256 === ""',
      ],
    ],
  ),
];

const SERVICE_LEVELS: readonly Mutation[] = [
  ...of(
    "src/service-levels/service-credits.ts",
    ["service-levels/service-levels"],
    [
      [
        "a repeated evaluation credits a breach again",
        '  if (toNano(row?.["posted"] ?? "0") > 0n) return 0n;\n',
        "",
      ],
      [
        "several service levels credit more than was paid",
        'paid - toNano(row?.["overlapping"] ?? "0")',
        "paid",
      ],
      [
        "credits exceed the cap of their service level",
        'level.cap - toNano(row?.["of_level"] ?? "0")',
        "level.cap",
      ],
      [
        "a frozen or closing account is credited",
        '  if (freeze !== undefined && freeze.by !== "debt") return 0n;\n',
        "",
      ],
      ["a refund returns a service credit", 'bucket: "promo"', 'bucket: "paid"'],
    ],
  ),
  ...of(
    "src/service-levels/breach.ts",
    ["service-levels/service-levels"],
    [
      ["failures of a caller's own provider key earn credit", "!record.byok && ", ""],
      [
        "errors of the caller's requests earn credit",
        "  return isOutage && (status < 400 || status >= 500);",
        "  return isOutage;",
      ],
      [
        "an account earns credit for errors that it provokes",
        "!isMissed || areOthersAvailable(others, target)",
        "!isMissed",
      ],
      [
        "tiny slow calls earn credit for expensive ones",
        "!isMissed || areOthersFast(others, { percent, target })",
        "!isMissed",
      ],
    ],
  ),
  ...of(
    "src/service-levels/evaluate-levels.ts",
    ["service-levels/service-levels"],
    [
      [
        "a service level is credited after its end",
        "endedAt === null || window.start < endedAt",
        "true",
      ],
    ],
  ),
];

const SINGLE_SIGN_ON: readonly Mutation[] = [
  ...of(
    "src/sso/sso-routes.ts",
    ["sso/sso"],
    [
      [
        "an issuer signs in addresses outside of the workspace's domains",
        "if ((await findWorkspaceOfEmail(tx, identity.email)) !== accountId)",
        'if (identity.email === "")',
      ],
    ],
  ),
  ...of(
    "src/sso/domains.ts",
    ["sso/domains"],
    [
      [
        "a domain is verified by the record of another workspace",
        "found.trim() === recordValue({ token })",
        'found.trim().startsWith(recordValue({ token: "" }))',
      ],
    ],
  ),
  ...of(
    "src/accounts/sso-identity.ts",
    ["sso/sso"],
    [
      [
        "a person of one workspace's issuer joins another workspace",
        "if (only === undefined || only === accountId) return;",
        'if (only !== "") return;',
      ],
    ],
  ),
  ...of(
    "src/accounts/members.ts",
    ["sso/sso"],
    [
      [
        "a session without single sign-on opens a workspace that requires it",
        "membership === undefined || membership.needsSso ? undefined",
        "membership === undefined ? undefined",
      ],
    ],
  ),
  ...of(
    "src/scim/apply-directory.ts",
    ["scim/scim"],
    [
      [
        "a deactivated user stays a member",
        "if (!user.active) return await removePerson(tx, act, personId);",
        "if (!user.active) return;",
      ],
    ],
  ),
  ...of(
    "src/webhooks/audit-streams.ts",
    ["webhooks/audit-stream"],
    [
      [
        "the header of an audit log stream is sent to another URL",
        "const kept = isSame ? before.sealed : null;",
        "const kept = before?.sealed ?? null;",
      ],
    ],
  ),
];

const PROMPT_LOG: readonly Mutation[] = [
  ...of(
    "src/prompt-log/prompt-log.ts",
    ["prompt-log/prompt-logging"],
    [
      [
        "a view of a prompt is not audited",
        'await recordAuditEntry(tx, { ...act, action: "prompt.viewed", target: id, detail: {} });',
        "",
      ],
      [
        "a workspace keeps prompts longer than the operator allows",
        "Math.min(maxDays, retentionDays ?? maxDays)",
        "(retentionDays ?? maxDays)",
      ],
      ["every member reads prompts", 'await authorize(tx, act, "prompts.read");', ""],
    ],
  ),
  ...of(
    "src/keys/delegation.ts",
    ["prompt-log/prompt-logging"],
    [
      [
        "a key turns on prompt logging",
        "if (change.promptLogging === true && policy.promptLogging !== true)",
        "if (false)",
      ],
    ],
  ),
  ...of(
    "src/accounts/accounts.ts",
    ["inference/routing/data-policy"],
    [
      [
        "a key of a claimed account loosens the data policy",
        'if (isLoosened && actor.type === "key" && row?.["claimed_at"] !== null)',
        "if (false)",
      ],
    ],
  ),
  ...of(
    "src/inference/lifecycle/enforce-data-policy.ts",
    ["inference/routing/data-policy"],
    [["the data policy of a workspace is not enforced", '    ["workspace", dataPolicy],\n', ""]],
  ),
  ...of(
    "src/guardrails/check-topics.ts",
    ["guardrails/topics"],
    [
      [
        "a key without credits skips the check of topics",
        "const isFailure = answers.status >= 500;",
        "const isFailure = true;",
      ],
      [
        "a request about a blocked topic passes",
        "(answers[index] ?? 1) >= settings.threshold",
        "(answers[index] ?? 1) > 1",
      ],
    ],
  ),
  ...of(
    "src/guardrails/open-guards.ts",
    ["guardrails/guardrails"],
    [
      [
        "a hook that fails lets every call pass",
        'verdict.action === "failed" && settings.on_failure === "allow"',
        'verdict.action === "failed"',
      ],
      [
        "a match that is to be denied is let through",
        'if (action === "deny") {',
        "if (action === undefined) {",
      ],
    ],
  ),
  ...of(
    "src/inference/lifecycle/check-guardrails.ts",
    ["guardrails/topics"],
    [
      [
        "the policy of a key keeps its requests from the check of topics",
        "caller: { ...payer, policy: kept },",
        "caller: { ...payer, policy },",
      ],
    ],
  ),
  ...of(
    "src/email/email-worker.ts",
    ["email/email-queue"],
    [
      [
        "an account with many emails delays those of all others",
        'after = email?.accountId ?? "";',
        'after = "";',
      ],
    ],
  ),
  ...of(
    "src/scim/scim-groups.ts",
    ["scim/large-groups"],
    [
      [
        "the groups of a directory have more members than a page can show",
        '"count") + more > ALL_MEMBERS_MAX',
        '"count") + more < 0',
      ],
    ],
  ),
  ...of(
    "src/sinks/sink-rows.ts",
    ["sinks/sinks"],
    [
      [
        "slow destinations of an account delay the sinks of all others",
        "order by is_failing, queue_position, due_at",
        "order by is_failing, due_at",
      ],
    ],
  ),
  ...of(
    "src/sinks/sinks-routes.ts",
    ["sinks/sinks"],
    [
      [
        "a developer's key reads the sinks, whose URLs can contain secrets",
        'readScope: "account:write",',
        'readScope: "usage:read",',
      ],
    ],
  ),
  ...of(
    "src/claims/rate-counters.ts",
    ["device-login/device-login"],
    [
      [
        "one wide network starts all sign-ins of programs that all may start",
        "max: Math.floor(max * WIDEST_NETWORK_SHARE),",
        "max,",
      ],
    ],
  ),
  ...of(
    "src/models/catalog.ts",
    ["http/linear-texts"],
    [
      [
        "the name of a model can be read in exponentially many ways",
        "v\\d+(?::\\d+|(?!:\\d))",
        "v\\d+(?::\\d+)?",
      ],
    ],
  ),
  ...of(
    "src/sinks/sinks.ts",
    ["http/linear-texts"],
    [
      [
        "the prefix of a sink can be read in exponentially many ways",
        "+\\/){0,19}",
        "+\\/?){0,19}",
      ],
    ],
  ),
  ...of(
    "src/sinks/sinks.ts",
    ["sinks/sinks"],
    [
      [
        "a key sends logged prompts to a sink of its own",
        'if (actor.type !== "key") return;',
        "if (actor.id !== '') return;",
      ],
      [
        "the secret headers of a sink are sent to another URL",
        "if (names.length > 0 && former?.settings.url !== url)",
        "if (names.length > 100)",
      ],
      [
        "the secret access key of a sink is sent to another URL",
        "    former.settings.url === settings.url &&\n",
        "",
      ],
      [
        "a failing sink is never disabled",
        "now - (sink.failingSince ?? now) < DISABLE_AFTER_MS",
        "now > 0",
      ],
    ],
  ),
  ...of(
    "src/sinks/sink-rows.ts",
    ["sinks/sinks"],
    [
      [
        "a retry writes other calls under the name of an object",
        "  if (first === undefined) {",
        "  if (first !== null) {",
      ],
    ],
  ),
  ...of(
    "src/inference/request/call-options.ts",
    ["inference/lifecycle/response-cache"],
    [
      [
        "a request takes older replies than its key allows",
        "Math.min(seconds, most ?? CACHE_SECONDS_MAX)",
        "seconds",
      ],
    ],
  ),
];

export const MUTATIONS: readonly Mutation[] = [
  ...MEDIA,
  ...BATCHES,
  ...HOSTILE,
  ...LEDGER,
  ...SETTLEMENTS,
  ...GATEWAY_TOOLS,
  ...SERVICE_LEVELS,
  ...KEYS,
  ...SECRETS,
  ...ROUTING,
  ...CONNECTIONS,
  ...BILLING,
  ...STOPS,
  ...ACCOUNTS,
  ...CREDENTIALS,
  ...SINGLE_SIGN_ON,
  ...PROMPT_LOG,
];
