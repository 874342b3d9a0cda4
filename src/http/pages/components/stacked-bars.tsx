/** @jsxImportSource hono/jsx */
// A stacked bar chart: one bar per time bucket, one segment per series. The SVG is stretched; labels are HTML beside it.

import type { Child } from "hono/jsx";

export interface Series {
  readonly label: string;
  /** One value per bar. */
  readonly values: readonly number[];
}

interface StackedBarsProps {
  /** What the chart shows, for screen readers. */
  readonly label: string;
  /** One label per bar. */
  readonly bars: readonly string[];
  readonly series: readonly Series[];
  readonly format: (value: number) => string;
  /** What a click on each bar opens. The table of the chart has the same links, because an image has no links for keyboards. */
  readonly hrefs?: readonly string[] | undefined;
}

/** Series beyond this share one color; the stylesheet has this many. */
export const SERIES_MAX = 6;
const HEIGHT = 100;
const BAR_WIDTH = 10;
const BAR_GAP = 2;
const AXIS_LABELS_MAX = 7;
const GRID_LINES = 4;

export function StackedBars({ label, bars, series, format, hrefs }: StackedBarsProps): Child {
  const totals = bars.map((_, bar) => sum(series.map(({ values }) => values[bar] ?? 0)));
  const top = niceMaximum(Math.max(...totals, 0));
  const width = Math.max(1, bars.length) * BAR_WIDTH;
  const scale = Array.from({ length: GRID_LINES + 1 }, (_, line) => (top * line) / GRID_LINES);
  const step = Math.max(1, Math.ceil(bars.length / AXIS_LABELS_MAX));
  return (
    <div class="chart">
      <ol class="scale" aria-hidden="true">
        {alignCents(scale.map(format)).map((label) => (
          <li>{label}</li>
        ))}
      </ol>
      <svg
        viewBox={`0 0 ${width} ${HEIGHT}`}
        preserveAspectRatio="none"
        role="img"
        aria-label={label}
      >
        {scale.map((value) => {
          const y = HEIGHT - (value / top) * HEIGHT;
          return <line x1="0" x2={width} y1={y} y2={y} />;
        })}
        {bars.map((bar, index) => (
          <Bar
            x={index * BAR_WIDTH}
            top={top}
            values={series.map(({ values }) => values[index] ?? 0)}
            href={hrefs?.[index]}
            title={barTitle(bar, totals[index] ?? 0, { series, index, format })}
          />
        ))}
      </svg>
      <ol class="axis" aria-hidden="true">
        {bars.map((bar, index) => (
          <li>{index % step === 0 ? bar : null}</li>
        ))}
      </ol>
    </div>
  );
}

/** `$3.00` beside `$4.50`. */
function alignCents(labels: readonly string[]): readonly string[] {
  if (!labels.some((label) => /\.\d\d$/.test(label))) return labels;
  return labels.map((label) => (/^\$[1-9]\d*$/.test(label) ? `${label}.00` : label));
}

function Bar({
  x,
  top,
  values,
  href,
  title,
}: {
  readonly x: number;
  readonly top: number;
  readonly values: readonly number[];
  readonly href: string | undefined;
  readonly title: string;
}): Child {
  let y = HEIGHT;
  return (
    <g>
      {values.map((value, index) => {
        const height = (value / top) * HEIGHT;
        y -= height;
        return height === 0 ? null : (
          <rect
            class={`series-${Math.min(index + 1, SERIES_MAX)}`}
            x={x + BAR_GAP / 2}
            width={BAR_WIDTH - BAR_GAP}
            y={y.toFixed(2)}
            height={height.toFixed(2)}
          />
        );
      })}
      <rect class="hit" x={x} width={BAR_WIDTH} y="0" height={HEIGHT} data-href={href}>
        <title>{title}</title>
      </rect>
    </g>
  );
}

export function Legend({ series }: { readonly series: readonly Pick<Series, "label">[] }): Child {
  return (
    <ul class="legend">
      {series.map(({ label }, index) => (
        <li>
          <svg viewBox="0 0 9 9" aria-hidden="true">
            <rect class={`series-${Math.min(index + 1, SERIES_MAX)}`} width="9" height="9" rx="2" />
          </svg>
          {label}
        </li>
      ))}
    </ul>
  );
}

interface TitleContext {
  readonly series: readonly Series[];
  readonly index: number;
  readonly format: (value: number) => string;
}

function barTitle(bar: string, total: number, { series, index, format }: TitleContext): string {
  const parts = series.flatMap(({ label, values }) => {
    const value = values[index] ?? 0;
    return value === 0 ? [] : [`${label}: ${format(value)}`];
  });
  return [`${bar}: ${format(total)}`, ...(parts.length > 1 ? parts : [])].join("\n");
}

/** The axis ends at the next of these times a power of ten, so that grid lines have short labels and the tallest bar fills the chart. */
const CHART_TOPS = [1, 1.2, 1.6, 2, 2.4, 3.2, 4, 6, 8, 10];

function niceMaximum(value: number): number {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return (CHART_TOPS.find((step) => step * power >= value) ?? 10) * power;
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
