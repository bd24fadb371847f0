import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type JarsNeed, javaProgram } from '../run/maven.ts'
import { nativeServer, serverDirectory } from '../run/native.ts'
import { freePort } from '../run/ports.ts'
import { launch } from '../run/process.ts'
import type { Server } from '../run/server.ts'
import { probeSqs, type SqsConnection, sqsConnection } from './sqs-connection.ts'

/** What a native ElasticMQ needs. */
export const ELASTICMQ_JARS: JarsNeed = {
  pom: 'elasticmq',
  service: 'sqs',
  variable: 'ONCEWARD_SQS_ENDPOINT',
}

const JVM = ['-Xmx192m', '-XX:+UseSerialGC', '-XX:TieredStopAtLevel=1']

/** ElasticMQ from Maven jars, with strict limits and its queues and messages on disk. */
export async function elasticmq(): Promise<Server<SqsConnection>> {
  const program = await javaProgram(ELASTICMQ_JARS)
  const port = await freePort()
  const directory = await serverDirectory('elasticmq')
  const log = join(directory, 'elasticmq.log')
  const config = join(directory, 'elasticmq.conf')
  await writeFile(config, configOf(port, directory))
  const endpoint = `http://127.0.0.1:${port}`
  return nativeServer({
    name: 'sqs',
    connection: sqsConnection(endpoint),
    directory,
    log,
    stopSignal: 'SIGTERM',
    startDeadlineMs: 180_000,
    launch: () =>
      launch({
        command: program.java,
        args: [
          ...JVM,
          `-Dconfig.file=${config}`,
          ...['-cp', program.classpath, 'org.elasticmq.server.Main'],
        ],
        cwd: directory,
        log,
        directory,
      }),
    probe: () => probeSqs(endpoint),
  })
}

function configOf(port: number, directory: string): string {
  const quoted = (name: string): string => JSON.stringify(join(directory, name))
  return `include classpath("application.conf")
node-address { protocol = http, host = "127.0.0.1", port = ${port}, context-path = "" }
rest-sqs { enabled = true, bind-port = ${port}, bind-hostname = "127.0.0.1", sqs-limits = strict }
rest-stats { enabled = false }
generate-node-address = false
queues-storage { enabled = true, path = ${quoted('queues.conf')} }
messages-storage {
  enabled = true
  driver-class-name = "org.h2.Driver"
  # Without the delay SIGKILL loses nothing that was acknowledged.
  uri = "jdbc:h2:"${quoted('messages')}";WRITE_DELAY=0"
  username = ""
  password = ""
}
aws { region = "us-east-1", accountId = "000000000000" }
`
}
