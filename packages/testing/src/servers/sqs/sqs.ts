import { dockerServer } from '../run/docker-container.ts'
import { IMAGES } from '../run/images.ts'
import { retryTakenPort } from '../run/native.ts'
import { resolveServer, userServer } from '../run/resolve.ts'
import type { Server, ServerOptions } from '../run/server.ts'
import { elasticmq } from './elasticmq.ts'
import { fauxqsInProcess, fauxqsProcess } from './fauxqs.ts'
import { probeSqs, type SqsConnection, sqsConnection } from './sqs-connection.ts'

/** Options of {@link sqs}. */
export interface SqsOptions extends ServerOptions {
  /** `fauxqs` (default) needs npm alone; `elasticmq` needs Java and knows more of SQS. */
  readonly engine?: 'fauxqs' | 'elasticmq' | undefined
  /** Runs fauxqs in a process of its own, durable, so that it can be killed. */
  readonly process?: boolean | undefined
}

/** An SQS API: `ONCEWARD_SQS_ENDPOINT`, else fauxqs, else (on request) ElasticMQ. */
export async function sqs(options: SqsOptions = {}): Promise<Server<SqsConnection>> {
  return resolveServer(options, {
    variable: 'ONCEWARD_SQS_ENDPOINT',
    fromEnvironment: async (endpoint) => {
      await probeSqs(endpoint)
      return userServer('sqs', 'ONCEWARD_SQS_ENDPOINT', sqsConnection(endpoint))
    },
    // fauxqs comes with npm: a container would only be slower.
    docker: () => (options.engine === 'elasticmq' ? dockerElasticmq() : nativeSqs(options)),
    native: () => nativeSqs(options),
  })
}

function nativeSqs(options: SqsOptions): Promise<Server<SqsConnection>> {
  if (options.engine === 'elasticmq') return retryTakenPort(elasticmq)
  return options.process ? retryTakenPort(fauxqsProcess) : fauxqsInProcess()
}

function dockerElasticmq(): Promise<Server<SqsConnection>> {
  return dockerServer({
    name: 'sqs',
    image: IMAGES.sqs,
    port: 9324,
    connection: (port) => sqsConnection(`http://127.0.0.1:${port}`),
    probe: ({ endpoint }) => probeSqs(endpoint),
  })
}
