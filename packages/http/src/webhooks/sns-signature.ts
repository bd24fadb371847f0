import { verify, X509Certificate } from 'node:crypto'
import { ConfigurationError } from '@onceward/core'
import { refuseProblems, refuseUnknownNames } from '@onceward/core/adapter'
import type { WebhookVerdict, WebhookVerifier } from './signatures.ts'

/** What `snsSignature` needs of `fetch`. */
export type SnsFetch = (
  url: string,
  init: { readonly redirect: 'error'; readonly signal: AbortSignal },
) => Promise<Pick<Response, 'ok' | 'status' | 'text'>>

/** Options of `snsSignature`. */
export interface SnsSignatureOptions {
  /**
   * The ARNs of the topics whose messages are taken; messages of others are refused. Set it: AWS signs the messages of
   * every topic, so that without it whoever has an AWS account can send messages from a topic of his own. Default: all
   * topics, and a warning at the start.
   */
  readonly topicArn?: string | readonly string[] | undefined
  /**
   * True: the guard confirms subscriptions of `topicArn` itself. False (default): it logs the `SubscribeURL`, and you open
   * it once.
   */
  readonly confirm?: boolean | undefined
  /** Gets certificates, and confirms subscriptions. @defaultValue `globalThis.fetch` */
  readonly fetch?: SnsFetch | undefined
}

const REFUSED: WebhookVerdict = { kind: 'refused' }

/**
 * The signature of Amazon SNS over HTTPS, versions 1 and 2. The event id is the `MessageId`, which a redelivery keeps. The
 * body is JSON, although SNS says `text/plain`; `decode: unwrapSns()` makes the published message the payload.
 *
 * The certificate is fetched from an SNS host of AWS alone (`https://sns.<region>.amazonaws.com/….pem`, no redirects),
 * checked, and cached. While it cannot be fetched, deliveries are answered 500 and SNS sends them again. Raw message delivery
 * has no signature and is refused.
 *
 * @throws {@link ConfigurationError}
 * @see https://docs.aws.amazon.com/sns/latest/dg/sns-verify-signature-of-message.html
 *
 * @example
 * ```ts
 * import { unwrapSns } from '@onceward/core'
 * import { createWebhookGuard, snsSignature } from '@onceward/http/webhooks'
 *
 * const verify = snsSignature({ topicArn: 'arn:aws:sns:eu-central-1:123456789012:orders' })
 * const orders = createWebhookGuard(
 *   { consumer: 'orders', inbox, verify, decode: unwrapSns() },
 *   async ({ payload }, { tx }) => {
 *     await tx.query('insert into orders (body) values ($1)', [payload])
 *   },
 * )
 * ```
 */
export function snsSignature(options: SnsSignatureOptions = {}): WebhookVerifier {
  refuseUnknownNames('snsSignature', options, { topicArn: true, confirm: true, fetch: true })
  const { confirm = false, fetch = globalThis.fetch as SnsFetch, topicArn } = options
  refuseProblems(problemsOf(options))
  const topics = topicArn === undefined ? undefined : new Set([topicArn].flat())
  const certificates = new Certificates(fetch)
  const verifier: WebhookVerifier = async ({ bytes }, nowMs) => {
    const message = readMessage(bytes)
    if (message === undefined || topics?.has(message.TopicArn) === false) return REFUSED
    const certificate = await certificates.get(message.SigningCertURL)
    if (certificate === undefined || !isSigned(message, certificate, nowMs)) return REFUSED
    if (message.Type === 'Notification') {
      return { kind: 'verified', eventId: message.MessageId, contentType: 'application/json' }
    }
    const url = message.SubscribeURL ?? ''
    if (message.Type === 'SubscriptionConfirmation' && confirm && isOfSns(url)) {
      await confirmed(fetch, url)
      return handled(message, 'a subscription of an SNS topic is confirmed')
    }
    return handled(message, HELP[message.Type], url)
  }
  return topics === undefined ? Object.assign(verifier, { advice: ANY_TOPIC }) : verifier
}

const ANY_TOPIC =
  'snsSignature() takes messages of every SNS topic, also of other accounts: set `topicArn` to the ARN of yours'

const HELP = {
  SubscriptionConfirmation:
    'an SNS topic asks for its subscription to be confirmed: open `subscribeUrl` if it is yours, or set `confirm: true` of snsSignature()',
  UnsubscribeConfirmation:
    'the subscription of an SNS topic was removed: open `subscribeUrl` if it was a mistake',
} as const

const handled = (
  { TopicArn, Type }: Message,
  note: string,
  subscribeUrl?: string,
): WebhookVerdict => ({
  kind: 'handled',
  note,
  fields: { topicArn: TopicArn, type: Type, ...(subscribeUrl && { subscribeUrl }) },
})

function problemsOf({ confirm, fetch, topicArn }: SnsSignatureOptions): readonly string[] {
  const arns: readonly unknown[] = topicArn === undefined ? [] : [topicArn].flat()
  const isArns = arns.every((arn) => typeof arn === 'string' && /^arn:[^:]+:sns:/.test(arn))
  const problems: readonly (readonly [boolean, string])[] = [
    [
      !isArns || (topicArn !== undefined && arns.length === 0),
      'Expected `topicArn` of snsSignature to be the ARN of an SNS topic (`arn:aws:sns:…`), or a list of them. Is the environment variable set?',
    ],
    [
      !['undefined', 'boolean'].includes(typeof confirm),
      `Expected \`confirm\` of snsSignature to be true or false, got ${typeof confirm}.`,
    ],
    [
      confirm === true && topicArn === undefined,
      'Expected `topicArn` beside `confirm: true` of snsSignature: otherwise everybody could subscribe this endpoint to a topic of his own.',
    ],
    [
      !['undefined', 'function'].includes(typeof fetch),
      `Expected \`fetch\` of snsSignature to be a function, got ${typeof fetch}.`,
    ],
  ]
  return problems.filter(([isBroken]) => isBroken).map(([, problem]) => problem)
}

const TYPES = ['Notification', 'SubscriptionConfirmation', 'UnsubscribeConfirmation'] as const

interface Message {
  readonly Type: (typeof TYPES)[number]
  readonly MessageId: string
  readonly TopicArn: string
  readonly Message: string
  readonly Timestamp: string
  readonly Signature: string
  readonly SignatureVersion: string
  readonly SigningCertURL: string
  readonly Subject?: string | null
  readonly SubscribeURL?: string
  readonly Token?: string
}

const REQUIRED = [
  ...['MessageId', 'TopicArn', 'Message', 'Timestamp'],
  ...['Signature', 'SignatureVersion', 'SigningCertURL'],
]

/** Undefined for what SNS did not send, or signed in a way that is not known. Nothing is fetched for it. */
function readMessage(bytes: Uint8Array): Message | undefined {
  let given: Readonly<Record<string, unknown>>
  try {
    given = Object(JSON.parse(Buffer.from(bytes).toString('utf8')))
  } catch {
    return undefined
  }
  const message = given as unknown as Message
  const isWhole =
    REQUIRED.every((name) => typeof given[name] === 'string') &&
    TYPES.includes(message.Type) &&
    message.SignatureVersion in ALGORITHMS &&
    isOfSns(message.SigningCertURL) &&
    new URL(message.SigningCertURL).pathname.endsWith('.pem')
  return isWhole ? message : undefined
}

const ALGORITHMS: Readonly<Record<string, string>> = Object.assign(Object.create(null), {
  1: 'RSA-SHA1',
  2: 'RSA-SHA256',
})

const SNS_HOST = /^sns\.[a-z]{2}(-[a-z0-9]+)+\.amazonaws\.com(\.cn)?$/

/** Whether a URL is of SNS itself. A bucket of S3, for example, is also below amazonaws.com. */
function isOfSns(text: string): boolean {
  if (!URL.canParse(text)) return false
  const { hostname, password, port, protocol, username } = new URL(text)
  const isPlain = protocol === 'https:' && port === '' && username === '' && password === ''
  return isPlain && SNS_HOST.test(hostname)
}

const SIGNED = {
  Notification: ['Message', 'MessageId', 'Subject', 'Timestamp', 'TopicArn', 'Type'],
  Confirmation: [
    ...['Message', 'MessageId', 'SubscribeURL', 'Timestamp', 'Token', 'TopicArn', 'Type'],
  ],
} as const

function signedText(message: Message): string {
  const names = message.Type === 'Notification' ? SIGNED.Notification : SIGNED.Confirmation
  return (names as readonly (keyof Message)[])
    .filter((name) => message[name] !== undefined && message[name] !== null)
    .map((name) => `${name}\n${message[name]}\n`)
    .join('')
}

function isSigned(message: Message, certificate: X509Certificate, nowMs: number): boolean {
  const { publicKey, validFrom, validTo } = certificate
  const isValid = Date.parse(validFrom) <= nowMs && nowMs <= Date.parse(validTo)
  if (!isValid || publicKey.asymmetricKeyType !== 'rsa') return false
  const signature = Buffer.from(message.Signature, 'base64')
  const text = Buffer.from(signedText(message))
  return verify(ALGORITHMS[message.SignatureVersion], text, publicKey, signature)
}

/** Milliseconds for a call of AWS. Providers wait longer for their answer. */
const CALL_MS = 5_000
/** SNS has one certificate at a time in each region. */
const MOST_CERTIFICATES = 100
const LONGEST_PEM = 65_536
const MOST_FETCHES = 10

/** The certificates that were fetched, by their URLs. What failed is fetched again. */
class Certificates {
  readonly #fetch: SnsFetch
  #running = 0
  readonly #known = new Map<string, Promise<X509Certificate | undefined>>()

  constructor(fetch: SnsFetch) {
    this.#fetch = fetch
  }

  /**
   * Undefined if there is none at this URL, or it is damaged.
   *
   * @throws an error if AWS does not answer.
   */
  async get(url: string): Promise<X509Certificate | undefined> {
    const known = this.#known.get(url)
    if (known !== undefined) return known
    // Anybody can name a certificate that does not exist.
    if (this.#running >= MOST_FETCHES) throw new Error('too many certificates of SNS are fetched')
    this.#running += 1
    const fetching = this.#load(url).finally(() => {
      this.#running -= 1
    })
    const [oldest] = this.#known.keys()
    if (oldest !== undefined && this.#known.size >= MOST_CERTIFICATES) this.#known.delete(oldest)
    this.#known.set(url, fetching)
    const forget = (): void => void this.#known.delete(url)
    fetching.then((certificate) => certificate ?? forget(), forget)
    return fetching
  }

  async #load(url: string): Promise<X509Certificate | undefined> {
    const pem = await called(this.#fetch, url, 'the certificate of SNS')
    return pem === undefined || pem.length > LONGEST_PEM ? undefined : chained(pem)
  }
}

/** The first certificate, if each one is issued by the one after it. Undefined for anything else. */
function chained(pem: string): X509Certificate | undefined {
  try {
    const blocks = pem.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? []
    const chain = blocks.map((block) => new X509Certificate(block))
    const isIssued = chain.every((certificate, at) => {
      const issuer = chain[at + 1]
      return (
        issuer === undefined ||
        (certificate.checkIssued(issuer) && certificate.verify(issuer.publicKey))
      )
    })
    return isIssued ? chain[0] : undefined
  } catch {
    return undefined
  }
}

async function confirmed(fetch: SnsFetch, url: string): Promise<void> {
  if ((await called(fetch, url, 'the confirmation of a subscription')) === undefined) {
    throw new ConfigurationError(
      'SNS refused the confirmation of a subscription: its token is used or older than two days. Subscribe the endpoint again.',
    )
  }
}

/**
 * The text at a URL of SNS; undefined if SNS says that there is none.
 *
 * @throws an error without an answer in time, or with one that may be another one later.
 */
async function called(fetch: SnsFetch, url: string, what: string): Promise<string | undefined> {
  const signal = AbortSignal.timeout(CALL_MS)
  const late = Promise.withResolvers<never>()
  signal.addEventListener('abort', () => late.reject(new Error(`${what} took too long`)))
  const calling = async (): Promise<string | undefined> => {
    const response = await fetch(url, { redirect: 'error', signal })
    if (response.ok) return response.text()
    if (response.status >= 400 && response.status < 500 && response.status !== 429) return undefined
    throw new Error(`${what} was answered with status ${response.status}`)
  }
  return Promise.race([calling(), late.promise])
}
