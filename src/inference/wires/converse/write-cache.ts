import type { CacheMark, JsonObject, Loss } from "../../canonical.ts";
import type { Target } from "../../canonical-wire.ts";
import { familyOf } from "./model-family.ts";

export interface CacheWriting {
  readonly target: Target;
  readonly losses: Loss[];
  readonly place?: "tools" | undefined;
}

/** A mark is a block of its own after the thing. Claude takes it everywhere, Nova not among tools; others cache by themselves or not at all. */
export function writeCache(
  cache: CacheMark | undefined,
  at: string,
  { target, losses, place }: CacheWriting,
): JsonObject | undefined {
  if (cache === undefined) return undefined;
  const family = familyOf(target);
  const path = at === "" ? "cache_control" : `${at}.cache_control`;
  if (family !== "claude" && (family !== "nova" || place === "tools")) {
    losses.push({ path, why: "This model has no such cache mark.", byRule: true });
    return undefined;
  }
  const { ttl } = cache;
  const known = ttl === undefined || ttl === "5m" || (ttl === "1h" && family === "claude");
  if (!known)
    losses.push({
      path: `${path}.ttl`,
      why: `This model keeps no cache for ${ttl}; its default holds.`,
      byRule: true,
    });
  return { cachePoint: { type: "default", ttl: known ? ttl : undefined } };
}
