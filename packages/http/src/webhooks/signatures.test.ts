import { verify as githubVerify } from '@octokit/webhooks-methods'
import { ConfigurationError } from '@onceward/core'
import fc from 'fast-check'
import { Webhook } from 'standardwebhooks'
import Stripe from 'stripe'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import {
  bodyOf,
  headersOf,
  NOW_MS,
  OTHER,
  SCHEMES,
  type Scheme,
  SECRET,
} from '../fixtures/webhooks.ts'
import {
  githubSignature,
  standardWebhook,
  stripeSignature,
  type WebhookVerifier,
} from './signatures.ts'

const VERIFIERS: Readonly<Record<Scheme, (...secrets: string[]) => WebhookVerifier>> = {
  stripe: (...secrets) => stripeSignature(secrets),
  github: (...secrets) => githubSignature(secrets),
  standard: (...secrets) => standardWebhook(secrets),
  svix: (...secrets) => standardWebhook(secrets),
}

type Given = Readonly<Record<string, string>>

const verdictOf = async (
  verifier: WebhookVerifier,
  given: Given,
  body: string | Uint8Array,
  nowMs = NOW_MS,
) => verifier({ headers: new Headers(given), bytes: Buffer.from(body) }, nowMs)

const REFUSED = { kind: 'refused' }

describe.each(SCHEMES)('the signature of %s', (scheme) => {
  const verifier: WebhookVerifier = (...delivery) => VERIFIERS[scheme](SECRET)(...delivery)
  const body = bodyOf('evt_1')
  const headers = headersOf(scheme, { id: 'evt_1', body })

  test('is verified, and the id of the event is found', async () => {
    expect(await verdictOf(verifier, headers, body)).toEqual({ kind: 'verified', eventId: 'evt_1' })
  })

  test('is over the raw bytes: the same JSON in other bytes is refused', async () => {
    const other = JSON.stringify(JSON.parse(body), undefined, 1)
    expect(await verdictOf(verifier, headers, other)).toEqual(REFUSED)
    const bytes = Buffer.from([0x7b, 0xff, 0x00, 0x7d])
    const odd = headersOf(scheme, { id: 'evt_1', body: bytes })
    expect(await verdictOf(verifier, odd, bytes)).toMatchObject({ kind: 'verified' })
  })

  test('of any secret is verified while secrets are rotated, and of no other one', async () => {
    const both = VERIFIERS[scheme](OTHER, SECRET)
    expect(await verdictOf(both, headers, body)).toMatchObject({ kind: 'verified' })
    const byOther = headersOf(scheme, { id: 'evt_1', body, secret: OTHER })
    expect(await verdictOf(both, byOther, body)).toMatchObject({ kind: 'verified' })
    expect(await verdictOf(verifier, byOther, body)).toEqual(REFUSED)
  })

  test('is refused if any header of it is missing, empty, cut or changed', async () => {
    for (const [name, value] of Object.entries(headers)) {
      const isIdOfGithub = name === 'x-github-delivery'
      if (isIdOfGithub) continue
      const { [name]: _, ...others } = headers
      const last = value.at(-1) === 'A' ? 'B' : 'A'
      const broken = ['', ' ', value.slice(0, -4), `${value.slice(0, -3)}${last}${value.slice(-2)}`]
      expect(await verdictOf(verifier, others, body)).toEqual(REFUSED)
      for (const each of broken) {
        if (scheme === 'stripe' && each.startsWith('t=') && each.includes(',v0=')) continue
        expect(await verdictOf(verifier, { ...headers, [name]: each }, body), each).toEqual(REFUSED)
      }
    }
  })

  test.each(['\n', '\r\n', ' '])('with %j after its secret is refused, and says so', (space) => {
    for (const secret of [`${SECRET}${space}`, `${space}${SECRET}`]) {
      expect(() => VERIFIERS[scheme](SECRET, secret)).toThrow(/white space.*Trim it/)
      expect(() => VERIFIERS[scheme](SECRET, secret)).not.toThrow(SECRET)
    }
  })

  test('configuration that cannot work is refused without showing a secret', () => {
    const make = VERIFIERS[scheme] as (...secrets: unknown[]) => WebhookVerifier
    for (const secrets of [[], [''], ['  '], [undefined], [SECRET, ''], [5], [{}]]) {
      expect(() => make(...secrets)).toThrow(ConfigurationError)
      expect(() => make(...secrets)).toThrow(/Is the environment variable set/)
      expect(() => make(...secrets)).not.toThrow(SECRET)
    }
  })
})

test('an API key of Stripe and a secret that is no Base64 are refused, and not shown', () => {
  for (const key of ['sk_live_abc', 'rk_live_abc', 'pk_live_abc']) {
    expect(() => stripeSignature(key)).toThrow(/begins with whsec_\), got an API key/)
    expect(() => stripeSignature(key)).not.toThrow('abc')
  }
  expect(() => standardWebhook('hush!')).toThrow(/Base64/)
  expect(() => standardWebhook('hush!')).not.toThrow('hush')
  expect(() => standardWebhook(SECRET, { toleranceMs: 5 })).toThrow(/toleranceMs.*milliseconds/)
  expect(() => stripeSignature(SECRET, { tolerance: 5 } as never)).toThrow(/toleranceMs/)
})

test('a secret of Stripe may hold the beginning of an API key elsewhere', () => {
  expect(() => stripeSignature('whsec_risk_1')).not.toThrow()
})

describe('a secret of Standard Webhooks', () => {
  const base64Of = (bytes: number): string => Buffer.alloc(bytes, 7).toString('base64')

  test('has 16 bytes at least', () => {
    expect(() => standardWebhook(base64Of(16))).not.toThrow()
    expect(() => standardWebhook(base64Of(15))).toThrow(/at least 16 bytes/)
  })

  test('is Base64 as a whole, after whsec_ at its beginning alone', () => {
    const good = base64Of(24)
    for (const secret of [`!${good}`, `${good}!`, `${good.slice(0, 16)}whsec_${good}`]) {
      expect(() => standardWebhook(secret), secret).toThrow(/to be Base64/)
    }
  })
})

describe('a signature of another version', () => {
  const body = bodyOf('evt_1')

  test.each([
    ['stripe', 'stripe-signature', 'v1='],
    ['standard', 'webhook-signature', 'v1,'],
  ] as const)('of %s does not count, whatever it is', async (scheme, name, version) => {
    const { [name]: good = '', ...others } = headersOf(scheme, { id: 'evt_1', body })
    expect(good).toContain(version)
    for (const other of ['v0', 'v2', 'v1a', '', 'V1']) {
      const value = good.replace(version, `${other}${version.slice(2)}`)
      expect(
        await verdictOf(VERIFIERS[scheme](SECRET), { ...others, [name]: value }, body),
        value,
      ).toEqual(REFUSED)
    }
  })
})

test('a signature of GitHub begins with its algorithm', async () => {
  const { 'x-hub-signature-256': good = '' } = headersOf('github', { id: 'x', body: '{}' })
  const given = { 'x-hub-signature-256': `x${good}` }
  expect(await verdictOf(githubSignature(SECRET), given, '{}')).toEqual(REFUSED)
})

test('a part without a value in the header of Stripe is ignored', async () => {
  const { 'stripe-signature': good = '' } = headersOf('stripe', { id: '', body: '{}' })
  for (const [header, kind] of [
    [`v1,t,${good}`, 'verified'],
    [good.replace(/v1=\w+/, 'v1'), 'refused'],
  ] as const) {
    const given = { 'stripe-signature': header }
    expect(await verdictOf(stripeSignature(SECRET), given, '{}'), header).toMatchObject({ kind })
  }
})

test('a good signature of Standard Webhooks over an empty id is refused', async () => {
  const headers = headersOf('standard', { id: '', body: '{}' })
  expect(await verdictOf(standardWebhook(SECRET), headers, '{}')).toEqual(REFUSED)
})

describe.each(['stripe', 'standard'] as const)('the timestamp of %s', (scheme) => {
  const make = scheme === 'stripe' ? stripeSignature : standardWebhook
  const body = bodyOf('evt_1')

  const seconds = String(NOW_MS / 1_000)
  test.each(['', `+${seconds}`, ` ${seconds}`, `${seconds}.0`, `${seconds}e0`])(
    'is refused if it is not digits alone, although it is signed: %j',
    async (timestamp) => {
      const headers = headersOf(scheme, { id: 'evt_1', body, timestamp })
      expect(await verdictOf(make(SECRET), headers, body)).toEqual(REFUSED)
    },
  )

  test.each([
    [0, true],
    [-300_000, true],
    [300_000, true],
    [-301_000, false],
    [301_000, false],
  ])('may be %d ms away: %s', async (offMs, isGood) => {
    const headers = headersOf(scheme, { id: 'evt_1', body, atMs: NOW_MS + offMs })
    const { kind } = await verdictOf(make(SECRET), headers, body)
    expect(kind).toBe(isGood ? 'verified' : 'refused')
  })

  test('has the tolerance that is asked for', async () => {
    const headers = headersOf(scheme, { id: 'evt_1', body, atMs: NOW_MS - 5_000 })
    const kinds = await Promise.all(
      [4_000, 5_000].map((toleranceMs) => verdictOf(make(SECRET, { toleranceMs }), headers, body)),
    )
    expect(kinds.map(({ kind }) => kind)).toEqual(['refused', 'verified'])
  })
})

describe('a verified delivery without an id', () => {
  test.each(['{}', '{"id":5}', '{"id":""}', 'null', '[]', '"x"', 'no JSON', ''])(
    'of Stripe has none: %s',
    async (body) => {
      const headers = headersOf('stripe', { id: '', body })
      expect(await verdictOf(stripeSignature(SECRET), headers, body)).toEqual({
        kind: 'verified',
        eventId: undefined,
      })
    },
  )

  test('of GitHub has none', async () => {
    const { 'x-github-delivery': _, ...headers } = headersOf('github', { id: 'x', body: '{}' })
    expect(await verdictOf(githubSignature(SECRET), headers, '{}')).toMatchObject({
      eventId: undefined,
    })
  })
})

describe('property: the packages of the providers say the same', () => {
  beforeEach(() => {
    vi.useFakeTimers({ now: NOW_MS, toFake: ['Date'] })
  })
  afterEach(() => {
    vi.useRealTimers()
  })

  const stripe = new Stripe('sk_test_none')
  const ORACLES: Readonly<Record<Scheme, (body: string, headers: Given) => Promise<unknown>>> = {
    stripe: async (body, headers) =>
      stripe.webhooks.constructEvent(body, headers['stripe-signature'] ?? '', SECRET, 300),
    standard: async (body, headers) => new Webhook(SECRET).verify(body, headers as never),
    svix: async (body, headers) =>
      new Webhook(SECRET).verify(
        body,
        Object.fromEntries(
          Object.entries(headers).map(([name, value]) => [
            name.replace('svix-', 'webhook-'),
            value,
          ]),
        ),
      ),
    github: async (body, headers) => {
      const isGood = await githubVerify(SECRET, body, headers['x-hub-signature-256'] ?? '')
      if (!isGood) throw new Error('bad')
    },
  }

  const damage = fc.oneof(
    { weight: 3, arbitrary: fc.constant((value: string) => value) },
    fc.nat(200).map((at) => (value: string) => value.slice(0, at)),
    fc.tuple(fc.nat(200), fc.constantFrom('0', 'a', ',', '=', ' ', 'Z')).map(
      ([at, letter]) =>
        (value: string) =>
          `${value.slice(0, at)}${letter}${value.slice(at + 1)}`,
    ),
    fc.constant(() => 'v1,,=;x'),
  )

  test.each(SCHEMES)('of signatures, good and damaged: %s', async (scheme) => {
    let verified = 0
    const delivery = fc.record({
      id: fc.stringMatching(/^[a-z0-9_-]{1,20}$/),
      text: fc.string({ unit: 'binary' }).filter((text) => text.isWellFormed()),
      offMs: fc.constantFrom(0, 0, -100_000, -299_000, -302_000, -9_000_000),
      secret: fc.constantFrom(SECRET, SECRET, SECRET, OTHER),
      damage,
    })
    await fc.assert(
      fc.asyncProperty(delivery, async ({ damage, id, offMs, secret, text }) => {
        const body = bodyOf(id, { text })
        const good = headersOf(scheme, { id, body, secret, atMs: NOW_MS + offMs })
        const headers = Object.fromEntries(
          Object.entries(good).map(([name, value]) => [
            name,
            name.includes('signature') ? damage(value).trim() : value,
          ]),
        )
        const { kind } = await verdictOf(VERIFIERS[scheme](SECRET), headers, body)
        const oracle = await ORACLES[scheme](body, headers).then(
          () => 'verified',
          () => 'refused',
        )
        if (kind === 'verified') verified += 1
        expect(kind, JSON.stringify(headers)).toBe(oracle)
      }),
      { numRuns: 300 },
    )
    expect(verified).toBeGreaterThan(20)
  })
})

// Red when the id is the key: the second type that somebody tries in the dashboard is a duplicate and never runs.
test("Stripe's test events have one id, and each of them is an event", async () => {
  const verifier = stripeSignature(SECRET)
  const eventIdOf = async (type: string, atMs = NOW_MS): Promise<string | undefined> => {
    const delivery = {
      id: 'evt_00000000000000',
      body: bodyOf('evt_00000000000000', { type }),
      atMs,
    }
    const verdict = await verdictOf(verifier, headersOf('stripe', delivery), delivery.body)
    return verdict.kind === 'verified' ? verdict.eventId : undefined
  }
  const ids = [
    await eventIdOf('charge.succeeded'),
    await eventIdOf('invoice.paid'),
    await eventIdOf('charge.succeeded', NOW_MS + 1_000),
  ]
  expect(new Set(ids).size).toBe(3)
  // The same request again is the same delivery.
  expect(await eventIdOf('invoice.paid')).toBe(ids[1])
})

test('the names of Svix and of Standard Webhooks are not mixed', async () => {
  const body = bodyOf('evt_1')
  const verifier = standardWebhook(SECRET)
  const { 'webhook-id': id = '', ...others } = headersOf('standard', { id: 'evt_1', body })
  expect(await verdictOf(verifier, { ...others, 'svix-id': id }, body)).toEqual(REFUSED)
})
