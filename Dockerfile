# truegreen in a container, as an unprivileged user: docs/elsewhere.md says what it is for.
#
#   docker build --tag truegreen .
#
# What runs tests needs their toolchain: give a base that has it, and git.
#
#   docker build --tag truegreen-go --build-arg BASE=golang:1.26 .
#
# A tag can be moved. For an image that others rely on, give both bases by their digests.
ARG BUILD=golang:1.26-alpine
ARG BASE=alpine:3

FROM ${BUILD} AS build
WORKDIR /src
COPY . .
# Without cgo it runs on every base.
RUN CGO_ENABLED=0 go build -trimpath -buildvcs=false -o /truegreen ./cmd/truegreen

FROM ${BASE}
# A base that has both is taken as it is.
RUN git --version && test -s /etc/ssl/certs/ca-certificates.crt || apk add --no-cache git ca-certificates
COPY --from=build /truegreen /usr/local/bin/truegreen
# Any user can write there. Mount a volume for what is to outlive the container.
ENV TRUEGREEN_STATE=/tmp/truegreen
WORKDIR /work
USER 65532:65532
ENTRYPOINT ["truegreen"]
