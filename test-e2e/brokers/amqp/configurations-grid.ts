import type { Grid } from '../../fuzz/configurations/grid.ts'

export interface RabbitmqSettings {
  readonly arguments: Readonly<Record<string, string | number | boolean>>
  readonly durable: boolean
  readonly exclusive: boolean
  readonly autoDelete: boolean
  /** Set with `rabbitmqctl set_policy`. */
  readonly policy: Readonly<Record<string, string | number>>
  readonly deadLetter: 'queue' | 'dlx' | 'exchange'
  readonly deadLetterPolicy: boolean
  readonly holdMs: number
  readonly prefetch: number | undefined
  readonly transaction: 'each' | 'batch'
  readonly consumerTimeoutMs: number | undefined
  readonly priorities: boolean
  /** Of the consumer's user: regular expressions of RabbitMQ. Default: everything. */
  readonly permissions:
    | { readonly configure: string; readonly write: string; readonly read: string }
    | undefined
  /** An operator has declared the delay queues. */
  readonly hasDelayQueues: boolean
  /** Parameters of the consumer's connection. */
  readonly connection: string
}

/** More messages than the story sends. */
const ROOMY = 1_000
/** Fewer than the story sends, so that the queue is full. */
const NARROW = 4

/** As docs/rabbitmq.md names them. All queues of the grid begin with `cell_`. */
const NEEDED = {
  configure: '^cell_',
  write: '^amq\\.(default|direct)$',
  read: '^cell_',
}

/** The broker keeps what it would drop. */
const isKept = ({ deadLetter }: RabbitmqSettings): boolean => deadLetter === 'dlx'

export const RABBITMQ: Grid<RabbitmqSettings> = {
  name: 'rabbitmq',
  title: 'RabbitMQ',
  base: {
    arguments: {},
    durable: true,
    exclusive: false,
    autoDelete: false,
    policy: {},
    deadLetter: 'queue',
    deadLetterPolicy: false,
    holdMs: 5_000,
    prefetch: undefined,
    transaction: 'each',
    consumerTimeoutMs: undefined,
    priorities: false,
    permissions: undefined,
    hasDelayQueues: false,
    connection: '',
  },
  // What RabbitMQ itself refuses to declare: streams know no argument of the others, quorum queues some only.
  isImpossible: ({ arguments: given, durable, exclusive, deadLetter, ...settings }) => {
    const type = given['x-queue-type']
    const isQuorum = type === 'quorum'
    const isPlain = Object.keys(given).length === 0 && durable && !exclusive && !settings.autoDelete
    return (
      (type !== undefined && (!durable || exclusive || settings.autoDelete)) ||
      (type === 'stream' && Object.keys(given).length > 1) ||
      (isQuorum && ('x-max-priority' in given || given['x-overflow'] === 'reject-publish-dlx')) ||
      ('x-queue-mode' in given && isQuorum) ||
      ('x-delivery-limit' in given && !isQuorum) ||
      // A user that may not declare a queue cannot read its arguments, so the start neither refuses them nor warns of them.
      ((settings.permissions?.configure ?? NEEDED.configure) !== NEEDED.configure && !isPlain) ||
      (settings.deadLetterPolicy && deadLetter !== 'dlx')
    )
  },
  dimensions: [
    {
      name: 'type',
      choices: [
        { name: 'classic' },
        { name: 'quorum', set: { arguments: { 'x-queue-type': 'quorum' } } },
        {
          name: 'quorum with `x-delivery-limit` and no dead-letter exchange',
          set: { arguments: { 'x-queue-type': 'quorum', 'x-delivery-limit': 5 } },
          refusedIf: {
            // The way to a dead-letter exchange, where another choice has declared one.
            when: ({ deadLetter }) => deadLetter !== 'dlx',
            names: 'x-delivery-limit 5 and no x-dead-letter-exchange',
            says: 'unless dead letters go the way of a dead-letter exchange',
          },
        },
        {
          name: 'stream',
          set: { arguments: { 'x-queue-type': 'stream' } },
          refused: 'is a stream',
        },
      ],
    },
    {
      name: 'durability',
      choices: [
        { name: 'durable' },
        { name: 'not durable', set: { durable: false }, warned: 'is not durable' },
        { name: 'exclusive', set: { exclusive: true }, refused: 'exclusive queue' },
        { name: 'auto-delete', set: { autoDelete: true }, refused: 'declared with auto_delete' },
      ],
    },
    {
      name: 'length',
      choices: [
        { name: 'no limit' },
        {
          name: '`x-max-length`, drop-head',
          set: { arguments: { 'x-max-length': ROOMY } },
          warned: 'drops its oldest messages (x-max-length)',
          unwarned: isKept,
        },
        {
          name: '`x-max-length` that is reached, reject-publish',
          set: { arguments: { 'x-max-length': NARROW, 'x-overflow': 'reject-publish' } },
        },
        {
          name: '`x-max-length` that is reached, reject-publish-dlx',
          set: { arguments: { 'x-max-length': NARROW, 'x-overflow': 'reject-publish-dlx' } },
          strays: {
            when: ({ deadLetter }) => deadLetter === 'dlx',
            says: 'with `dlx`, RabbitMQ dead-letters a copy of what it refuses of a producer',
          },
        },
      ],
    },
    {
      name: 'time limits',
      choices: [
        { name: 'none' },
        {
          name: '`x-message-ttl`',
          set: { arguments: { 'x-message-ttl': 60_000 } },
          warned: '(x-message-ttl)',
          unwarned: isKept,
        },
        {
          name: '`x-expires`',
          set: { arguments: { 'x-expires': 600_000 } },
          warned: '(x-expires)',
        },
      ],
    },
    {
      name: 'consumers',
      choices: [
        { name: 'any number' },
        {
          name: '`x-single-active-consumer`',
          set: { arguments: { 'x-single-active-consumer': true } },
        },
      ],
    },
    {
      name: 'priorities',
      choices: [
        { name: 'none' },
        {
          name: '`x-max-priority`',
          set: { arguments: { 'x-max-priority': 5 }, priorities: true },
        },
      ],
    },
    {
      name: 'mode',
      choices: [
        { name: 'default' },
        { name: '`x-queue-mode` lazy', set: { arguments: { 'x-queue-mode': 'lazy' } } },
      ],
    },
    {
      name: 'policy',
      choices: [
        { name: 'none' },
        { name: 'max-length', set: { policy: { 'max-length': ROOMY } } },
        { name: 'message-ttl', set: { policy: { 'message-ttl': 60_000 } } },
        { name: 'expires', set: { policy: { expires: 600_000 } } },
        { name: 'dead-letter-exchange', set: { policy: { 'dead-letter-exchange': '' } } },
      ],
    },
    {
      name: '`deadLetter`',
      choices: [
        { name: 'a queue' },
        { name: 'an exchange', set: { deadLetter: 'exchange' } },
        {
          name: '`dlx`',
          set: {
            deadLetter: 'dlx',
            arguments: { 'x-dead-letter-exchange': '', 'x-dead-letter-routing-key': 'DEAD' },
          },
        },
        {
          name: '`dlx` by policy',
          set: {
            ...{ deadLetter: 'dlx', deadLetterPolicy: true },
            policy: { 'dead-letter-exchange': '', 'dead-letter-routing-key': 'DEAD' },
          },
        },
      ],
    },
    {
      name: '`consumer_timeout`',
      choices: [
        { name: 'of the server' },
        {
          name: 'short, and said in `consumerTimeoutMs`',
          set: { consumerTimeoutMs: 60_000 },
          refused: 'consumerTimeoutMs',
        },
      ],
    },
    {
      name: 'deferred messages wait',
      choices: [
        { name: 'in hand' },
        { name: 'in a delay queue (`holdMs: 0`)', set: { holdMs: 0 } },
      ],
    },
    {
      name: '`prefetch`',
      choices: [{ name: 'by the pace' }, { name: '1', set: { prefetch: 1 } }],
    },
    {
      name: '`transaction`',
      choices: [{ name: 'each' }, { name: 'batch', set: { transaction: 'batch' } }],
    },
    {
      name: 'permissions of the user',
      choices: [
        { name: 'all' },
        { name: 'those in rabbitmq.md', set: { permissions: NEEDED } },
        {
          name: 'no `configure` on the queue',
          set: { permissions: { ...NEEDED, configure: '\\.retry\\.' } },
          warned: 'could not be read',
        },
        {
          name: 'no `configure`',
          set: { permissions: { ...NEEDED, configure: '^$' } },
          refused: 'may not declare them',
        },
        {
          name: 'no `read` on the delay queues',
          set: { permissions: { ...NEEDED, read: '^cell_[0-9a-f]+$' } },
          refused: 'allow `configure` and `read` on them',
        },
        {
          name: 'no `configure`, but the delay queues are there',
          set: { permissions: { ...NEEDED, configure: '^$' }, hasDelayQueues: true },
          warned: 'could not be read',
        },
        {
          name: 'no `read`, but the delay queues are there',
          set: { permissions: { ...NEEDED, read: '^$' }, hasDelayQueues: true },
          waits: 'ACCESS_REFUSED',
        },
      ],
    },
    {
      name: 'connection',
      choices: [
        { name: 'default' },
        { name: '`channelMax` 1', set: { connection: '?channelMax=1' } },
        { name: '`frameMax` 8192', set: { connection: '?frameMax=8192' } },
        { name: 'no heartbeat', set: { connection: '?heartbeat=0' } },
      ],
    },
  ],
}
