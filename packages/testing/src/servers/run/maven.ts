import { execFile } from 'node:child_process'
import { createHash, randomUUID } from 'node:crypto'
import { access, readFile, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { cacheDirectory, withLock } from '../redis/cache.ts'
import { ServerMissingError, type ServiceName } from './server.ts'
import { type Tool, toolPaths } from './tools.ts'

const run = promisify(execFile)

const JAVA: Tool = { command: 'java', package: 'default-jre-headless' }
const MAVEN: Tool = { command: 'mvn', package: 'maven' }

const OLDEST_JAVA = 17

/** A Java program that is started from the jars of a pom. */
export interface JavaProgram {
  readonly java: string
  readonly classpath: string
}

/** Which pom of `packages/testing/maven`, for which service. */
export interface JarsNeed {
  readonly pom: 'kafka' | 'elasticmq'
  readonly service: ServiceName
  readonly variable: string
}

/** Java and the jars of a pom; the jars are downloaded once per version of the pom. */
export async function javaProgram(need: JarsNeed): Promise<JavaProgram> {
  const { java } = await toolPaths({ ...need, tools: [JAVA] })
  await requireVersion(java as string, need)
  const pom = fileURLToPath(new URL(`../../../maven/${need.pom}/pom.xml`, import.meta.url))
  const version = createHash('sha256')
    .update(await readFile(pom))
    .digest('hex')
    .slice(0, 12)
  const jars = join(await cacheDirectory(), `${need.pom}-${version}`)
  if (!(await exists(jars))) await withLock('maven', () => download(need, { pom, jars }))
  return { java: java as string, classpath: join(jars, '*') }
}

async function requireVersion(java: string, need: JarsNeed): Promise<void> {
  const { stderr } = await run(java, ['-version'])
  const found = Number(/version "(\d+)/.exec(stderr)?.[1])
  if (found >= OLDEST_JAVA) return
  throw new ServerMissingError(
    `${need.service} needs Java ${OLDEST_JAVA} or newer and ${java} is ${stderr.split('\n')[0]}. ` +
      `Put a newer java first on PATH, set ${need.variable} to a server of yours, or ` +
      `ONCEWARD_SKIP=${need.service}.`,
  )
}

async function download(need: JarsNeed, paths: { pom: string; jars: string }): Promise<void> {
  if (await exists(paths.jars)) return
  const { mvn } = await toolPaths({ ...need, tools: [JAVA, MAVEN] })
  process.stderr.write(`onceward: downloading the jars of ${need.pom} to ${paths.jars}\n`)
  const draft = `${paths.jars}-${randomUUID()}`
  try {
    await run(mvn as string, [
      '-q',
      '-B',
      '-ntp',
      '-f',
      paths.pom,
      'dependency:copy-dependencies',
      `-DoutputDirectory=${draft}`,
      '-DincludeScope=runtime',
    ])
    await rename(draft, paths.jars)
  } catch (error) {
    await rm(draft, { recursive: true, force: true })
    const { stdout = '', message } = error as Error & { stdout?: string }
    throw new ServerMissingError(
      `${need.service}: Maven could not download the jars of ${paths.pom}. Set ${need.variable} ` +
        `to a server of yours, or ONCEWARD_SKIP=${need.service}.\n${stdout.trim() || message}`,
      { cause: error },
    )
  }
}

async function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  )
}
