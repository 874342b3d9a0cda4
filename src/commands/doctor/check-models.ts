// `doctor` on models: the models file and the age of the prices.

import type { Config } from "../../config/config.ts";
import { priceAge } from "../../models/catalog.ts";
import { createLiveCatalog, modelsFileAt, readPriceTable } from "../../models/live-catalog.ts";
import type { Finding } from "./finding.ts";

const STALE_PRICE_DAYS = 30;

export function checkModels(config: Config, now: number): readonly Finding[] {
  const { modelsFile } = config;
  if (modelsFile !== undefined && modelsFileAt(modelsFile).stamp() === undefined)
    return [
      {
        status: "fail",
        check: "models",
        message: `POSTERN_MODELS_FILE: ${modelsFile} does not exist`,
        hint: "Create the file or remove the setting.",
      },
    ];
  try {
    const catalog = createLiveCatalog({
      now,
      prices: readPriceTable(config.pricesFile),
      ...(modelsFile === undefined ? {} : { file: modelsFileAt(modelsFile) }),
    }).current();
    const age = priceAge(catalog, now);
    const says = `${catalog.models.length} models with prices, checked from ${age.oldest} to ${age.newest}`;
    if (age.days <= STALE_PRICE_DAYS) return [{ status: "ok", check: "prices", message: says }];
    return [
      {
        status: "warn",
        check: "prices",
        message: `${says}; the oldest are ${age.days} days old`,
        hint: "Update Postern, take a newer table with POSTERN_PRICES_FILE, or set changed prices in POSTERN_MODELS_FILE.",
      },
    ];
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    return [
      {
        status: "fail",
        check: "models",
        message: `${modelsFile ?? "the catalog"} cannot be read`,
        hint: message.replaceAll("\n", " "),
      },
    ];
  }
}
