import {
  createGuard,
  type Decode,
  type Delivery,
  debezium,
  idempotencyKeyHeader,
  losslessJson,
  unwrapCloudEvent,
  unwrapEventBridge,
  unwrapMassTransit,
  unwrapSns,
} from '@onceward/core'
import { memoryInbox, toDelivery } from '@onceward/core/memory'
import { fromSqsMessage } from '@onceward/sqs'
import { guardOf, requestOf, silent } from '../../../packages/http/src/fixtures/charges.ts'
import { type Expression, expressionsInPackages } from '../../repository/expressions.ts'

/** The default limit of a request, and the largest message of SQS and of Kafka. */
const LARGEST = 1024 * 1024
/** An expression that takes quadratic time needs minutes for a text of this length. */
const LONG = 256 * 1024

const UNITS = [
  ...[
    ' ',
    '\n',
    '\t',
    ' \n',
    'a',
    'A',
    '0',
    '"',
    "'",
    '\\',
    '/',
    '*/',
    '-',
    '=',
    '.',
    ',',
    ':',
    ';',
  ],
  ...['{', '[', '(', '<', '@', '#', '$', '%', '&', '+', '_', '|', '~', '\0', '\u{e9}', '\u{1f600}'],
  ...[
    'a.',
    'a/',
    'a-',
    'a+',
    '://a:',
    '0.0',
    '-0e',
    '""',
    "''",
    '\\"',
    '{"a":',
    '[{',
    ', 0',
    '""a',
  ],
]

const textOf = (unit: string, length: number): string =>
  unit.repeat(Math.ceil(length / unit.length)).slice(0, length)

/** Texts of one repeated unit, and the same with an end that does not fit. */
const textsOf = (length: number, units = UNITS): readonly string[] =>
  units.flatMap((unit) => [textOf(unit, length), `${textOf(unit, length - 1)}\0`])

const LONG_TEXTS = textsOf(LONG)

const guardFor = (decode: Decode<unknown> | undefined) =>
  createGuard(
    {
      ...{ consumer: 'long', inbox: memoryInbox(), logger: silent, retry: { attempts: 1 } },
      ...(decode === undefined ? {} : { decode }),
      eventKey: [({ messageId }) => messageId, idempotencyKeyHeader()],
    },
    () => undefined,
  )

async function process(
  decode: Decode<unknown> | undefined,
  deliveries: readonly Delivery[],
): Promise<void> {
  const guard = guardFor(decode)
  for (const delivery of deliveries) await guard.process(delivery)
  await guard.close()
}

const bodies = (over: Partial<Delivery> = {}): readonly Delivery[] =>
  textsOf(LARGEST).map((text) => toDelivery(null, { ...over, body: Buffer.from(text) }))

const HEADERS = [
  ...['content-type', 'content-encoding', 'idempotency-key', 'ce-id', 'ce_source', 'traceparent'],
  ...['webhook-id', 'x-death', 'x-onceward-item', 'x-order-key'],
]

/** Each header long, one at a time. */
const headed = (): readonly Delivery[] =>
  LONG_TEXTS.flatMap((text) =>
    HEADERS.map((name) => ({
      ...toDelivery({}, { headers: { [name]: text } }),
      ...(name.startsWith('content-') ? { contentType: text, contentEncoding: text } : {}),
    })),
  )

async function requests(
  requestsOf: (text: string) => Parameters<typeof requestOf>[0],
  length = LARGEST,
): Promise<void> {
  const guard = guardOf(() => ({ status: 201 }))
  for (const text of textsOf(length)) await guard.fetch(requestOf(requestsOf(text)))
  await guard.close()
}

/** What Node takes as the headers of one request. */
const LONGEST_HEADER = 15 * 1024
const printable = (text: string): string => text.replaceAll(/[^\t\x20-\x7e]/g, 'x')

/** Reads every message of an SQS queue as one that another producer sent. */
const messages = (): readonly Delivery[] =>
  textsOf(LARGEST).map((text, index) =>
    fromSqsMessage(
      {
        ...{ MessageId: `m-${index}`, ReceiptHandle: 'r', Body: text },
        Attributes: { ApproximateReceiveCount: '1' },
        MessageAttributes: { 'content-encoding': { DataType: 'String', StringValue: 'gzip' } },
      },
      'https://sqs.eu-west-1.amazonaws.com/1/q',
    ),
  )

const EXPRESSION_LITERAL = /^\/(.*)\/([a-z]*)$/s

function runExpression({ text }: Expression): void {
  const [, source = '', flags = ''] = EXPRESSION_LITERAL.exec(text) ?? []
  const expression = new RegExp(source, flags.replace('y', ''))
  // What stands in it literally is what it reads first.
  const own = source.split(/[^\w' :-]+/)
  const units = new Set([...own, own.join(''), own.join(' ')].filter((unit) => unit.trim() !== ''))
  for (const each of [...LONG_TEXTS, ...textsOf(LONG, [...units])]) {
    each.search(expression)
    if (expression.global) for (const _ of each.matchAll(expression));
  }
}

/** No base64, which shows at its end alone. */
const WHITE_SPACE = `${' '.repeat(LARGEST - 1)}!`

const ROWS: Readonly<Record<string, () => Promise<void> | void>> = {
  'white space that says it is gzip, in a request': async () => {
    const guard = guardOf(() => ({ status: 201 }))
    const headers = { 'content-encoding': 'gzip' }
    await guard.fetch(requestOf({ body: WHITE_SPACE, headers }))
    await guard.close()
  },
  'white space that says it is gzip, in a message': () =>
    process(undefined, [
      toDelivery(null, { body: Buffer.from(WHITE_SPACE), contentEncoding: 'gzip' }),
    ]),
  'bodies of requests': () => requests((body) => ({ body })),
  'compressed bodies of requests': () =>
    requests((body) => ({ body, headers: { 'content-encoding': 'gzip' } })),
  'keys of requests': () => requests((text) => ({ key: printable(text) }), LONGEST_HEADER),
  'content types of requests': () =>
    requests((text) => ({ headers: { 'content-type': printable(text) } }), LONGEST_HEADER),
  'bodies of messages': () => process(undefined, bodies()),
  'bodies that say they are gzip': () => process(undefined, bodies({ contentEncoding: 'gzip' })),
  'bodies that say they are deflate': () =>
    process(undefined, bodies({ contentEncoding: 'deflate' })),
  'bodies of CloudEvents': () =>
    process(
      unwrapCloudEvent(),
      bodies({ contentType: 'application/cloudevents+json; charset=utf-8' }),
    ),
  'bodies without loss': () => process(losslessJson(), bodies()),
  'bodies of Debezium': () => process(debezium(), bodies()),
  'bodies of SNS': () => process(unwrapSns(), bodies()),
  'bodies of EventBridge': () => process(unwrapEventBridge(), bodies()),
  'bodies of MassTransit': () => process(unwrapMassTransit(), bodies()),
  'bodies of SQS messages': () => process(undefined, messages()),
  'headers of messages': () => process(undefined, headed()),
  'every expression by itself': () => {
    for (const each of expressionsInPackages()) if (each.isLiteral) runExpression(each)
  },
}

for (const [name, run] of Object.entries(ROWS)) {
  console.log(`begins: ${name}`)
  await run()
}
console.log('ends')
