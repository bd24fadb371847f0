import { OUTSIDE } from './vitest-summary.mjs'

/** More failing files than this are no bad luck: none of them runs again. */
export const MOST_REPEATED_FILES = 5

/**
 * The files to run once more, alone.
 *
 * @param summary - What `vitest-summary.mjs` wrote; undefined when Vitest ended before.
 */
export function filesToRepeat(summary) {
  const failing = summary?.files.filter(({ failed }) => failed.length > 0) ?? []
  return failing.length > MOST_REPEATED_FILES ? [] : failing.map(({ file }) => file)
}

/**
 * Counts the tests of a run, and of the second run of each failing file.
 *
 * What failed and passed the second time is flaky: it counts as passed and is listed. What fails in the second run
 * fails. A run that ended badly without a failed test counts as one failure.
 *
 * @param first - `{ code, summary }` of the whole run.
 * @param second - The same of the files that ran again, by file.
 */
export function judge(first, second = new Map()) {
  const verdict = { passed: 0, failed: 0, skipped: [], leftOut: 0, flaky: [] }
  const { files = [], strayErrors = 0 } = first.summary ?? {}
  for (const once of files) {
    const file = once.failed.length === 0 ? once : repeated(once, second.get(once.file))
    const titled = (title) => `${once.file} > ${title}`
    verdict.passed += file.passed.length
    verdict.failed += file.failed.length
    verdict.leftOut += file.leftOut
    verdict.skipped.push(...file.skipped.map(titled))
    if (file.failed.length === 0) verdict.flaky.push(...once.failed.map(titled))
  }
  const isExplained = strayErrors > 0 || files.some(({ failed }) => failed.length > 0)
  verdict.failed += strayErrors + (first.code !== 0 && !isExplained ? 1 : 0)
  return verdict
}

/** What counts for a file that failed: its second run, if that ran to its end and ran what had failed. */
function repeated(once, { code, summary } = {}) {
  const again = summary?.files.find(({ file }) => file === once.file)
  if (again === undefined || again.failed.length > 0) return again ?? once
  const isOver = code === 0 && summary.strayErrors === 0
  const ran = new Set([OUTSIDE, ...again.passed])
  return isOver && once.failed.every((title) => ran.has(title)) ? again : once
}
