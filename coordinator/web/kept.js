// What is tried on in the sandbox, as text: kept in this tab, and handed on in links, which any site can write.

const KEPT = "reweave-sandbox";
export const MOST = 4;
export const LENGTHS = [["10 s", 10], ["1 min", 60], ["5 min", 300], ["15 min", 900], ["1 hour", 3600]];

const KINDS = ["past", "flows", "job", "trace"];
export const FORMATS = [["chakra", "Chakra"], ["flight-recorder", "PyTorch's flight recorder"], ["nccl-inspector", "NCCL Inspector"]];
export const MAX_GPUS_PER_HOST = 64;

/** Until the newest, unless a moment was chosen. */
export const NOTHING = { kind: "past", until: null, seconds: 60, flows: "", job: "", profile: "", trace: { format: "chakra", gpus_per_host: 1, files: [] }, fabric: "", variants: [] };

/** Null when it cannot be read. */
export function kept() {
  const text = sessionStorage.getItem(KEPT);
  return text === null ? NOTHING : read(text);
}

/** False where a tab does not keep that much. */
export function keepText(text) {
  try {
    sessionStorage.setItem(KEPT, text);
    return true;
  } catch {
    return false;
  }
}

function read(text) {
  try {
    const { kind, until, seconds, flows, job, profile, trace, fabric, variants } = { ...NOTHING, ...JSON.parse(text) };
    const isMoment = until === null || Number.isFinite(Date.parse(until));
    const isLength = LENGTHS.some(([, known]) => known === seconds);
    const areTexts = [flows, job, profile, fabric].every((it) => typeof it === "string");
    if (!KINDS.includes(kind) || !isMoment || !isLength || !areTexts || variants.length > MOST) return null;
    return { kind, until, seconds, flows, job, profile, trace: traceOf(trace), fabric, variants: variants.map(variantOf) };
  } catch {
    return null;
  }
}

function traceOf({ format, gpus_per_host, files }) {
  const isFormat = FORMATS.some(([known]) => known === format);
  const isNumber = Number.isInteger(gpus_per_host) && gpus_per_host >= 1 && gpus_per_host <= MAX_GPUS_PER_HOST;
  const areFiles = files.every(({ name, base64 }) => typeof name === "string" && typeof base64 === "string");
  if (!isFormat || !isNumber || !areFiles) throw new TypeError("no trace");
  return { format, gpus_per_host, files: files.map(({ name, base64 }) => ({ name, base64 })) };
}

/** And nothing else of it. */
function variantOf({ name, variant, files }) {
  const texts = [name, variant, ...Object.values(files)];
  if (!texts.every((it) => typeof it === "string")) throw new TypeError("no variant");
  return { name, variant, files: { ...files } };
}
