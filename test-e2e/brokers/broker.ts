import type { Consumption, Destination, Guard } from '@onceward/core'
import type { Broker, Place } from '@onceward/nestjs'
import type { Server, ServiceName } from '@onceward/testing'
import type { WordMatcher } from '@onceward/testing/wire'
import type { Benchmark } from '../../bench/runner/report.ts'
import type { Scale } from '../../bench/runner/scale.ts'
import type { BrokerDocs } from '../../scripts/docs-brokers.ts'
import type { DemoBroker } from '../demo/demo-broker.ts'
import type { MessageMaker } from '../fuzz/bytes/message-maker.ts'
import type { Playable } from '../fuzz/configurations/playable.ts'
import type { HangBroker } from '../fuzz/hangs/subject.ts'
import type { FailedStart } from '../support/failed-start.ts'
import type { SampleServer } from '../support/samples.ts'
import type { Source, Word } from '../support/workers/protocol.ts'
import type { QueueUnderTest } from './queue-under-test.ts'

/**
 * All that the repository knows about a broker outside its package: the demo, the crash matrix, the random rounds, the
 * soak, the acceptance tests, the benchmarks, the documents and their samples take what they need from here.
 *
 * A definition is light: everything that imports a client library is a function that imports it when it is called, so
 * that a worker process loads one client and not all of them.
 */
export interface BrokerDefinition {
  /** As people call it. */
  readonly title: string
  /** The server that tests start, as `ONCEWARD_SKIP` names it. */
  readonly service: ServiceName
  /** A program without which that server cannot run natively; undefined where npm installs all of it. */
  readonly needs: string | undefined
  readonly traits: BrokerTraits
  readonly servers: BrokerServers
  /** How to recognize what a client writes to a socket. A word that the adapter never says is left out. */
  readonly words: WireWords
  readonly samples: BrokerSamples
  /** Imports the worker's consumer. */
  consumer(): Promise<WorkerConsumer>
  /** Imports the broker's part of the demo. */
  demo(): Promise<DemoBroker>
  /** Imports the scenario of the benchmark. */
  benchmark(): Promise<(scale: Scale) => Promise<Benchmark>>
  /** Imports the option table, and what the pages say about defaults. */
  docs(): Promise<BrokerDocs>
  /** Imports the grid of the broker's configurations. */
  configurations(): Promise<Playable>
  /** Imports how the broker starts when its connections can be made to hang. */
  hangs(): Promise<() => Promise<HangBroker>>
  /** Imports how the client's messages are made and read back. */
  bytes(): Promise<MessageMaker>
  /** Imports the ways to start a consumer of which one step fails. */
  failedStarts(): Promise<readonly FailedStart[]>
  /** Imports a consumer whose client answers from memory, and what its work may cost. */
  inMemory(): Promise<InMemoryBroker>
  /** Imports the queue as a destination of the outbox. Left out: the adapter has none. */
  readonly destination?: (() => Promise<(source: never) => Promise<Destination>>) | undefined
  /** Imports the queue as a consumer of `@onceward/nestjs`. Left out: that package has no broker of it. */
  readonly nest?: (() => Promise<(source: never) => Promise<NestConsumer>>) | undefined
  /** The adapter's `consume…` function, loaded when it is asked for. */
  consume(): Promise<Consume>
}

/** In what brokers differ, as far as tests must know. */
export interface BrokerTraits {
  /**
   * The first delivery after an assignment may be a suspect, because the broker does not count deliveries: a run that
   * began may then have left a row in state `r`.
   */
  readonly firstDeliveryIsSuspect: boolean
  /** The broker takes work away from a process that is silent. The demo then stops one worker by SIGSTOP. */
  readonly dropsSilentConsumers: boolean
  /** The wrap publishes on the connection that it consumes from: one cannot hang without the other. */
  readonly wrapPublishesWhereItConsumes: boolean
  /** What clients do that are called after they were closed. */
  readonly closedClients: Readonly<Record<'consume' | 'publish', 'refuse' | 'connect again'>>
  /** The client opens a socket for each request that waits for its answer, up to this many. */
  readonly mostSockets?: number
  /** The transaction mode of the soak: each mode runs on one broker at least. */
  readonly soakTransaction: 'each' | 'batch'
}

/** The servers with the queues that the suites create on them. */
export interface BrokerServers {
  /** For what every adapter promises. */
  readonly acceptance: TestServer
  /** For the crash matrix: what is deferred waits in the broker, not in the process that is killed. */
  readonly crash: TestServer
  /** For rounds and the soak: a worker that is only slow keeps what it has in flight. */
  readonly patient: TestServer
  /** For outages: the same, where redelivery has a limit if the broker has such a thing. */
  readonly outage: readonly TestServer[]
}

/** A kind of server, not started yet. */
export interface TestServer {
  readonly title: string
  readonly service: ServiceName
  start(): Promise<RunningBroker>
}

export interface QueueNeeds {
  /** Its workers watch for a word on the wire. */
  readonly isWatched?: boolean | undefined
  /** What is sent again soon must be taken, also where the broker drops what has the id of a message that it had. */
  readonly takesCopies?: boolean | undefined
}

export interface RunningBroker<Queue extends QueueUnderTest = QueueUnderTest, Options = object> {
  readonly server: Server<unknown>
  /** A new queue, or topic. */
  createQueue(options?: Options & QueueNeeds): Promise<Queue>
  /** Closes all connections as an operator does, where the broker has such a command. */
  readonly disconnect?: (() => Promise<void>) | undefined
}

export type WireWords = { readonly [Each in Word]?: WordMatcher }

/** What a worker wants to know of its deliveries. */
export interface DeliveryWatch {
  /** The client has received a message; `position` as the adapter names it, where it is known by then. */
  onReceive(order: string, position?: string): void
}

export interface WorkerConsumer {
  /** Consumes a queue of this broker: `source` is what {@link QueueUnderTest.source} said. */
  consume(source: Source, guard: Guard, watch: DeliveryWatch): Promise<Consumption>
}

/** A consumer whose client answers from memory, so that the work of the adapter can be counted. */
export interface InMemoryBroker {
  readonly consumeInMemory: (guard: Guard) => Promise<InMemoryConsumer>
  /** Bounds for one clean event, the guard and the client included. Lower them when the path becomes shorter. */
  readonly MOST: Readonly<Record<'promises' | 'timers' | 'calls', number>>
}

export interface InMemoryConsumer {
  /** Makes new messages. The function delivers them, and resolves when the broker has all settlements. */
  prepare(count: number): () => Promise<unknown>
}

/** Any adapter's `consume…` function; its client and its options are its own. */
export type Consume = (client: never, guard: Guard, options: never) => Promise<unknown>

/** What a module of NestJS is given for a queue. */
export interface NestConsumer {
  readonly broker: Broker
  /** The options that say where a consumer reads. */
  readonly place: Place
  /** Closes the clients, after the application. */
  close(): Promise<void>
}

/** The samples of `docs/samples` that consume from this broker. */
export interface BrokerSamples {
  /** The complete consumer of the quick start. */
  readonly quickStart: string
  /** Further samples with a guard: they charge an order that was sent twice once. */
  readonly guarded: readonly string[]
  /** The same consumers without a guard: they charge it twice. */
  readonly unguarded: readonly string[]
  /** Lines that may differ between this broker's quick start and another one. */
  readonly ownLines: RegExp
  /** Whether each sample gets a queue of its own, so that samples may run side by side. */
  readonly haveOwnQueues: boolean
  start(): Promise<SampleServer>
}
