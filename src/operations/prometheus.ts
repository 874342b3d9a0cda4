// Renders the Prometheus text format, version 0.0.4.

type Labels = Readonly<Record<string, string | number>>;

export interface Sample {
  /** Suffix of the family's name. */
  readonly suffix?: "_bucket" | "_sum" | "_count";
  readonly labels?: Labels;
  readonly value: number;
}

export function renderFamily(
  name: string,
  type: "counter" | "gauge" | "histogram",
  help: string,
  samples: readonly Sample[],
): string {
  const lines = samples.map(
    ({ suffix = "", labels = {}, value }) => `${name}${suffix}${labelText(labels)} ${value}\n`,
  );
  return `# HELP ${name} ${help}\n# TYPE ${name} ${type}\n${lines.join("")}`;
}

function labelText(labels: Labels): string {
  const pairs = Object.entries(labels).map(
    ([name, value]) => `${name}="${escapeLabel(String(value))}"`,
  );
  return pairs.length === 0 ? "" : `{${pairs.join(",")}}`;
}

function escapeLabel(value: string): string {
  return value.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n");
}
