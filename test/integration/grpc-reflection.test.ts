// Reflection by configuration: what a tool reads back is the service as the .proto files write it.
import protobuf from 'protobufjs'
import 'protobufjs/ext/descriptor/index.js'
import { afterEach, describe, expect, it } from 'vitest'
import { builtInPlans, standardPlan } from '../../src/customers/subscriptions/plans.ts'
import { codec, GrpcStage, Subscription, withToken } from '../testkit/grpc-stage.ts'
import { framed, RawStream, rawSession } from '../testkit/raw-grpc.ts'
import { until } from '../testkit/until.ts'

let stage: GrpcStage

afterEach(async () => {
  await stage.close()
})

const path = '/grpc.reflection.v1.ServerReflection/ServerReflectionInfo'

async function ask(request: object, at = path): Promise<{ code: number; answers: object[] }> {
  const stream = new Subscription(stage.client(), withToken(stage.provision().token), at)
  const type = 'grpc.reflection.v1.ServerReflectionRequest'
  stream.askBytes(Buffer.from(codec.encode(type, request)))
  stream.stream.end()
  await until(() => stream.status !== null, 'a status')
  const response = codec.root.lookupType('grpc.reflection.v1.ServerReflectionResponse')
  const answers = stream.raw.map((bytes) => response.toObject(response.decode(bytes)))
  return { code: stream.status!.code, answers }
}

describe('reflection', () => {
  it('is off by default, and requires a token when it is on', async () => {
    stage = await GrpcStage.open()
    expect((await ask({ listServices: '' })).code).toBe(12)
    await stage.close()
    stage = await GrpcStage.open({ section: { reflection: true } })
    const refused = new Subscription(stage.client(), withToken('wrong'), path)
    await until(() => refused.status !== null, 'a status')
    expect(refused.status?.code).toBe(7)
  })

  it('lists the services, under both names of its own', async () => {
    stage = await GrpcStage.open({ section: { reflection: true } })
    for (const at of [path, path.replace('v1.', 'v1alpha.')]) {
      const { code, answers } = await ask({ listServices: '' }, at)
      expect(code).toBe(0)
      expect(answers[0]).toMatchObject({
        listServicesResponse: {
          service: [
            { name: 'geyser.Geyser' },
            { name: 'grpc.health.v1.Health' },
            { name: 'grpc.reflection.v1.ServerReflection' },
          ],
        },
      })
    }
    const unknown = await ask({ fileContainingSymbol: 'no.Such' })
    expect(unknown.answers[0]).toMatchObject({ errorResponse: { errorCode: 5 } })
  })

  it('describes geyser.Geyser so that a client can be built from it', async () => {
    stage = await GrpcStage.open({ section: { reflection: true } })
    const { answers } = await ask({ fileContainingSymbol: 'geyser.Geyser' })
    const { fileDescriptorResponse } = answers[0] as {
      fileDescriptorResponse: { fileDescriptorProto: Buffer[] }
    }
    const set = fileDescriptorResponse.fileDescriptorProto
    expect(set).toHaveLength(3)
    // A FileDescriptorSet is its files as field 1.
    const writer = protobuf.Writer.create()
    for (const file of [...set].reverse()) writer.uint32(10).bytes(file)
    // Reason for the cast: the extension adds the function without declaring its type.
    const fromDescriptor = protobuf.Root as unknown as {
      fromDescriptor(bytes: Uint8Array): protobuf.Root
    }
    const root = fromDescriptor.fromDescriptor(writer.finish())
    const service = root.lookupService('geyser.Geyser')
    expect(service.methodsArray).toHaveLength(9)
    const request = root.lookupType('geyser.SubscribeRequest')
    const asked = { slots: { a: {} }, commitment: 1, fromSlot: 7 }
    const bytes = request.encode(request.fromObject(asked)).finish()
    expect(codec.decode('geyser.SubscribeRequest', bytes)).toMatchObject({
      slots: { a: {} },
      commitment: 1,
    })
  })

  it('ends a stream that sends requests and does not read', async () => {
    stage = await GrpcStage.open({ section: { reflection: true } })
    const { token } = stage.provision({ plan: 'unlimited' })
    const session = rawSession(stage.target, '127.0.0.1', { initialWindowSize: 0 })
    const stream = new RawStream(session, path, { 'x-token': token })
    const type = 'grpc.reflection.v1.ServerReflectionRequest'
    const request = codec.encode(type, { fileContainingSymbol: 'geyser.Geyser' })
    for (let count = 0; count < 500; count++) stream.stream.write(framed(request))
    await until(() => stream.isClosed, 'the end of the stream')
    session.destroy()
  })

  it('costs a credit for every request after the first', async () => {
    const slow = { ...standardPlan, creditsPerSecond: 1, burst: 4 }
    stage = await GrpcStage.open({
      section: { reflection: true },
      plans: { ...builtInPlans, standard: slow },
    })
    const stream = new Subscription(stage.client(), withToken(stage.provision().token), path)
    const type = 'grpc.reflection.v1.ServerReflectionRequest'
    const request = Buffer.from(codec.encode(type, { listServices: '' }))
    for (let count = 0; count < 50; count++) stream.askBytes(request)
    await until(() => stream.status !== null, 'a status')
    expect(stream.status?.code).toBe(8)
    expect(stream.raw.length).toBeGreaterThanOrEqual(4)
  })
})
