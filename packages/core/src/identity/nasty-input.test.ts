import { describe, expect, test } from 'vitest'
import { NASTY_JSON, type NastyJson } from '../fixtures/nasty-json.ts'
import { toDelivery } from '../memory/to-delivery.ts'
import type { FingerprintRule } from '../options/resolved-options.ts'
import { decodeByUser, decodeJson } from './decode.ts'
import { fingerprintOf } from './fingerprint.ts'

const bytesOf = (text: string): Uint8Array => new TextEncoder().encode(text)

async function identify(body: Uint8Array, rule: FingerprintRule = 'body'): Promise<void> {
  const decoded = await decodeJson(body)
  await fingerprintOf(rule, { body, decoded, payload: decoded.value })
}

/** Processor time of this process, in ms: waiting for a busy machine is not work. */
function processorMs(): number {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1_000
}

/**
 * The least work of a few runs. A busy machine makes single runs several times dearer, also in processor time, so runs
 * that are above `enough` are repeated.
 */
async function workOf(run: () => Promise<void> | void, enough: number): Promise<number> {
  let least = Number.POSITIVE_INFINITY
  for (let round = 0; round < 8 && (round < 2 || least >= enough); round++) {
    const before = processorMs()
    await run()
    least = Math.min(least, processorMs() - before)
  }
  return least
}

describe('the work on a message grows with its size and not faster', () => {
  const cases: readonly (readonly [string, NastyJson])[] = Object.entries(NASTY_JSON)

  test.each(cases)('%s', async (_name, nasty) => {
    const small = bytesOf(nasty(50_000))
    const large = bytesOf(nasty(400_000))
    await identify(small)
    const smallMs = await workOf(() => identify(small), 10)
    // Eight times the size; quadratic work is 64 times as much.
    const most = 24 * Math.max(smallMs, 10)
    expect(await workOf(() => identify(large), most)).toBeLessThan(most)
  })

  test.each(cases)('%s, through a decoder and a fingerprint of the user', async (_name, nasty) => {
    const body = bytesOf(nasty(400_000))
    const parsed: unknown = JSON.parse(nasty(400_000))
    const value = Number.isFinite(parsed) || typeof parsed === 'object' ? parsed : String(parsed)
    const work = await workOf(async () => {
      const decoded = await decodeByUser(toDelivery(null, { body }), () => value, 'body')
      await fingerprintOf((payload) => payload, { body, decoded, payload: value })
    }, 1_500)
    expect(work).toBeLessThan(1_500)
  })
})

test.each(Object.entries(NASTY_JSON).filter(([, nasty]) => /^[0-9]/.test(nasty(10))))(
  'one number that fills the message takes no longer than to read it: %s',
  async (_name, nasty) => {
    const body = bytesOf(nasty(1_000_000))
    expect(await workOf(() => identify(body), 100)).toBeLessThan(100)
  },
)

describe('a large message lets others run meanwhile', () => {
  const PARTS = ['many numbers with exponents', 'nested lists', 'many small objects', 'many keys']

  /** Turns of the event loop while `work` is under way. */
  async function turnsDuring(work: Promise<unknown>): Promise<number> {
    let [turns, isOver] = [0, false]
    const count = (): void => {
      turns += 1
      if (!isOver) setImmediate(count)
    }
    setImmediate(count)
    await work.finally(() => {
      isOver = true
    })
    return turns
  }

  test.each(PARTS)('%s', async (name) => {
    const body = bytesOf(NASTY_JSON[name]?.(1_000_000) ?? '')
    expect(await turnsDuring(identify(body))).toBeGreaterThan(10)
  })

  test('a small message is decoded and fingerprinted at once', () => {
    const body = bytesOf('{"orderId":"o-1","amount":1e2}')
    const decoded = decodeJson(body)
    expect(decoded).not.toBeInstanceOf(Promise)
    if (decoded instanceof Promise) return
    expect(fingerprintOf('body', { body, decoded, payload: null })).toEqual(expect.any(BigInt))
  })
})

test('valid JSON of 16 MB is valid, whatever its texts hold', async () => {
  for (const escaped of ['\\"', '\\\\', '\\u0001']) {
    const text = `["${escaped.repeat(16_000_000 / escaped.length)}",12345678901234567890]`
    const decoded = decodeJson(bytesOf(text))
    expect(await decoded).toMatchObject({ isExact: false })
  }
})
