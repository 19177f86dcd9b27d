// Derives the JSON schema of the panels and dashboards that we use from Grafana's own TypeScript types. For each of the
// oldest and the newest version that we support, in a folder of its own:
//   npm install --prefix DIR @grafana/schema@VERSION typescript-json-schema@0.68.0
//   node tests/dashboards/grafana_schema.mjs DIR
// It writes tests/dashboards/grafana-MAJOR.json, which test_schema.py reads. Fields that Grafana does not know are
// errors; none is required, since Grafana fills in its defaults.
import { createRequire } from "node:module";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const folder = resolve(process.argv[2]);
const grafana = join(folder, "node_modules", "@grafana", "schema");
const { version, license } = JSON.parse(readFileSync(join(grafana, "package.json")));
const files = readdirSync(join(grafana, "dist"), { recursive: true });
const typesOf = (path) => {
  const found = files.find((file) => file.includes(`raw/${path}/x/`) && file.endsWith(".gen.d.ts"));
  return `./node_modules/@grafana/schema/dist/${found.replace(/\.d\.ts$/, "")}`;
};

const KINDS = ["timeseries", "stat", "gauge", "bargauge", "table", "status-history", "state-timeline", "heatmap"];
const NO_CUSTOM = ["stat", "gauge", "bargauge"];
const name = (kind) => kind.replace("-", "");

const source = `
import type * as raw from '${typesOf("dashboard")}';
${KINDS.map(name).map((kind) => `import type * as ${kind}Types from '${typesOf(`composable/${kind}/panelcfg`)}';`).join("\n")}
type Link = { title: string; url: string; targetBlank: boolean };
type Mapping = { type: 'value'; options: { [value: string]: raw.ValueMappingResult } };
type Field = Omit<raw.FieldConfig, 'custom' | 'links' | 'mappings'> & { links: Link[]; mappings: Mapping[] };
type Names<Of> = keyof Of & string;
type Property<Of, Before extends string> =
  { [K in Names<Of>]-?: { id: \`\${Before}\${K}\`; value: Of[K] } }[Names<Of>];
// Fields of the Prometheus data source, which are in @grafana/prometheus
interface Query {
  refId: string; datasource: raw.DataSourceRef; editorMode: 'code' | 'builder'; expr: string; legendFormat: string;
  format: 'time_series' | 'table' | 'heatmap'; instant: boolean; range: boolean;
}
interface Marks {
  expr: string; step: string; titleFormat: string; textFormat: string; tagKeys: string; useValueForTime: boolean;
}
interface Panel<Kind, Options, Custom> extends Omit<raw.Panel, 'type' | 'options' | 'fieldConfig' | 'targets'> {
  type: Kind; options: Options; targets: Query[];
  fieldConfig: { defaults: Field & { custom: Custom }; overrides: Array<{
    matcher: { id: 'byName' | 'byRegexp'; options: string };
    properties: Array<Property<Field, ''> | Property<Custom, 'custom.'>>;
  }> };
}
${KINDS.map((kind) => `export interface ${name(kind)} extends Panel<'${kind}', ${name(kind)}Types.Options, ${
  NO_CUSTOM.includes(kind) ? "{ none?: never }" : `${name(kind)}Types.FieldConfig`}> {}`).join("\n")}
export interface row extends raw.RowPanel {}
export interface dashboard extends Omit<raw.Dashboard, 'panels' | 'annotations'> {
  panels: Array<{}>; annotations: { list: Array<Omit<raw.AnnotationQuery, 'target'> & Marks> };
  __inputs: Array<{}>; __elements: {};
  __requires: Array<{ type: 'grafana' | 'datasource' | 'panel'; id: string; name: string; version: string }>;
}
`;
const file = join(folder, "ours.ts");
writeFileSync(file, source);

const tjs = createRequire(join(folder, "package.json"))("typescript-json-schema");
const program = tjs.getProgramFromFiles([file], { strictNullChecks: true, skipLibCheck: true, moduleResolution: 2 });
const settings = { noExtraProps: true, ref: false, ignoreErrors: true };
const plain = (value) => {
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map(plain);
  const record = value.type === "object" && !value.properties && value.additionalProperties === false;
  if (record) return { type: "object" };
  const told = ([key, inner]) => ["description", "$schema"].includes(key) && typeof inner === "string";
  const kept = Object.entries(value).filter((entry) => !told(entry));
  return Object.fromEntries(kept.map(([key, inner]) => [key, plain(inner)]));
};
const generator = tjs.buildGenerator(program, settings);
const definitions = Object.fromEntries(
  [...KINDS.map(name), "row", "dashboard"].map((root) => [root, plain(generator.getSchemaForSymbol(root))]),
);

// What occurs more than once is a definition of its own.
const shared = new Map();
const seen = new Map();
const count = (value) => {
  if (typeof value !== "object" || value === null) return;
  const text = JSON.stringify(value);
  seen.set(text, (seen.get(text) ?? 0) + 1);
  if (seen.get(text) === 1) Object.values(value).forEach(count);
};
const hoist = (value, top) => {
  if (typeof value !== "object" || value === null) return value;
  const text = JSON.stringify(value);
  const schema = !Array.isArray(value) && ("type" in value || "anyOf" in value);
  const again = !top && schema && text.length > 120 && seen.get(text) > 1;
  if (again && shared.has(text)) return { $ref: `#/definitions/${shared.get(text)}` };
  const inner = Array.isArray(value)
    ? value.map((one) => hoist(one))
    : Object.fromEntries(Object.entries(value).map(([key, one]) => [key, hoist(one)]));
  if (!again) return inner;
  shared.set(text, `shared${shared.size + 1}`);
  definitions[shared.get(text)] = inner;
  return { $ref: `#/definitions/${shared.get(text)}` };
};
Object.values(definitions).forEach(count);
for (const root of Object.keys(definitions)) definitions[root] = hoist(definitions[root], true);

const lines = Object.entries(definitions).map(([key, value]) => `  ${JSON.stringify(key)}: ${JSON.stringify(value)}`);
const comment = `Derived from @grafana/schema ${version} (${license}, Grafana Labs) by tests/dashboards/grafana_schema.mjs`;
const target = join(dirname(fileURLToPath(import.meta.url)), `grafana-${version.split(".")[0]}.json`);
writeFileSync(target, `{\n "$comment": ${JSON.stringify(comment)},\n "definitions": {\n${lines.join(",\n")}\n }\n}\n`);
