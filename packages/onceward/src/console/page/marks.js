import { ask } from './ask.js'
import { count } from './units.js'

const EVERY_MS = 10_000
/** The doctor asks more. */
const FINDINGS_EVERY_MS = 60_000

let askedAtMs = Number.NEGATIVE_INFINITY
let found = { askedAtMs: Number.NEGATIVE_INFINITY, errors: [], findings: 0 }

/** The errors of the doctor, at most a minute old. */
export async function doctorErrors() {
  if (performance.now() - found.askedAtMs >= FINDINGS_EVERY_MS) {
    found = { ...found, askedAtMs: performance.now() }
    const { findings } = await ask('findings')
    const errors = findings.filter(({ severity }) => severity === 'error')
    found = { ...found, errors, findings: findings.length }
  }
  return found.errors
}

/** Puts counts beside the names of the pages. What cannot be counted now keeps its last count. */
export async function refreshMarks() {
  if (performance.now() - askedAtMs < EVERY_MS) return
  askedAtMs = performance.now()
  const counts = await ask('marks').catch(() => ({}))
  await doctorErrors().catch(() => undefined)
  for (const [page, value] of Object.entries({ ...counts, findings: found.findings })) {
    const mark = document.querySelector(`[data-mark="${page}"]`)
    if (mark !== null) mark.textContent = value > 0 ? count(value) : ''
  }
}
