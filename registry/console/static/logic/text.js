// Formats numbers and times.

/** "5s", "3m", "7h", "12d", "2y40d": how long ago a time is, as kubectl has it. */
export function ageOf(time, now = Date.now()) {
  const at = Date.parse(time);
  if (Number.isNaN(at)) return "";
  const seconds = Math.max(0, Math.floor((now - at) / 1000));
  return durationText(seconds);
}

export function durationText(seconds) {
  if (seconds < 120) return `${Math.floor(seconds)}s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 10) return `${minutes}m${seconds % 60 >= 1 ? `${Math.floor(seconds % 60)}s` : ""}`;
  if (minutes < 180) return `${minutes}m`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${hours}h`;
  const days = Math.floor(hours / 24);
  if (days < 730) return `${days}d`;
  return `${Math.floor(days / 365)}y${days % 365}d`;
}

/** "2026-11-22 18:04:05" in the browser's time zone. */
export function timeText(time) {
  const at = new Date(time);
  if (Number.isNaN(at.getTime())) return "";
  const two = (number) => String(number).padStart(2, "0");
  const date = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  return `${date} ${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}

/** "12,345". */
export function countText(number) {
  return Number(number).toLocaleString("en-US");
}

/** "3.2 MiB". */
export function bytesText(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let value = Number(bytes);
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`;
}

/** "1 object", "12 objects". */
export function plural(count, noun) {
  return `${countText(count)} ${noun}${count === 1 ? "" : "s"}`;
}
